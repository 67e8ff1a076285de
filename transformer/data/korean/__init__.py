"""The built-in Korean-English corpus, generated: words (lexicon.py), sentences (grammar.py).

The corpus is named after the seed and the bytes of these two files: any edit of them, even of a
comment, makes it another corpus with another fingerprint, which TFDS prepares again.
"""
