"""The quickstart's corpus, Korean-English, generated: words (lexicon.py), sentences (grammar.py),
for TFDS (corpus.py).

The corpus is named after the seed and the bytes of the first two files: any edit of them, even of a
comment, makes it another corpus with another fingerprint, which TFDS prepares again.
"""
