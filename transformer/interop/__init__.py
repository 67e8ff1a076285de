"""Models of other programs: their files to our params and vocabulary, and back.

Read `foreign.py` first, what every format gives and takes, then `layout.py`, how another program's
arrays lie in ours, and a format: `marian.py` (Hugging Face's Marian, which OPUS-MT publishes),
`ctranslate2_read.py` and `ctranslate2_write.py` (CTranslate2). --mode=import makes a workdir of a
`Foreign`, --mode=export writes one. Of Hugging Face's GPT-2 (`gpt2.py`), MegatronBERT
(`megatron_bert.py`), whose vocabulary is in `tokenizer_json.py`, and ViT (`vit.py`) only the arrays
are read, of folders that we have written.
"""
