"""Text -> batches: corpora, vocabularies, token ids, packing.

Read corpora.py (what can be loaded), text_files.py, builders.py and wmt.py (how it is prepared by
TFDS), tokenizer.py and vocabulary.py (SentencePiece), tokens.py (ids on disk), packing.py,
pairs.py and batches.py (batch t as a pure function). korean/ generates the quickstart's corpus.
"""
