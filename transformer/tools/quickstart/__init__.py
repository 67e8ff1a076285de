"""Generates the quickstart's corpus, Korean-English.

Read lexicon.tsv (the words), lexicon.py (which reads them), morphology.py (their forms), phrases.py
(persons and things), grammar.py (sentences) and corpus.py (the corpus for TFDS).

The corpus is named after the seed and the bytes of the first five files. After any edit of these,
even of a comment, TFDS prepares the corpus again, under a new name.
"""
