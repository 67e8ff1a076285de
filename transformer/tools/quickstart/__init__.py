"""The quickstart's corpus, Korean-English, generated.

Read lexicon.tsv (the words), lexicon.py (which reads them), morphology.py (their forms), phrases.py
(persons and things), grammar.py (sentences) and corpus.py (the corpus for TFDS).

The corpus is named after the seed and the bytes of the first five files: any edit of them, even of
a comment, makes it another corpus with another fingerprint, which TFDS prepares again.
"""
