"""Text -> batches: corpora, vocabularies, token ids, packing.

Read corpora.py (loading a split), text_files.py (your own text), tfds_corpora.py (WMT, prepared by
TFDS), tokenizer.py (SentencePiece), tokens.py (ids on disk), packing.py (items to rows), batches.py
(batch t as a pure function), pairs.py (the arrays of a batch).

Sentence pairs have two sides, plain text has one. A vocabulary has, for each side, `encode`,
`decode`, a length, a `fingerprint`, and the ids `pad`, `start`, `end`, `unknown`.

Functions take values, never a config, and are never collective. Ids and packed rows on disk are a
cache: keyed by content, renamed into place, verified by checksums, and rebuilt if damaged.
UserError is for a mistake that the user can fix: a name, a file, a full disk.
"""
