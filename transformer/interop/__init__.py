"""Models of other programs: their files to our params and vocabulary, and back.

Read `foreign.py` first, what every format gives and takes, then `layout.py`, how another program's
arrays lie in ours, and a format: `huggingface.py` (Marian, which OPUS-MT publishes),
`ctranslate2_files.py` (CTranslate2). --mode=import makes a workdir of a `Foreign`, --mode=export
writes one.
"""
