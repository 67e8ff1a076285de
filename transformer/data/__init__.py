"""Text -> batches: corpora, vocabularies, token ids, packing.

Read corpora.py (what can be loaded), text_files.py (your own text), tfds_corpora.py (WMT, as TFDS
prepares it), tokenizer.py (SentencePiece), tokens.py (ids on disk), packing.py (items to rows),
batches.py (batch t as a pure function), pairs.py (the arrays of a batch).

A text corpus has one side or more: sentence pairs two, plain text one. A vocabulary has, for each
side, `encode`, `decode`, a length, a `fingerprint`, and the ids `pad`, `start`, `end`, `unknown`.

Functions here take values, never a config, and are never collective: each process may call them at
any time. Ids and packed rows on disk are a cache: keyed by content, renamed into place, verified by
checksums, and rebuilt where they are damaged. UserError, of one line, is for what the user can
mend: a name, a file, a full disk.
"""
