"""--mode=import and --mode=export: models of other programs, their files to ours and back.

Read foreign.py first, what every format gives and takes, then matrices.py, how another program's
arrays lie in ours (arrays.py reads and writes its files), and a format: marian.py, marian_config.py
and marian_tokenizer.py (Hugging Face's Marian, which OPUS-MT publishes), or ctranslate2_write.py
(CTranslate2, which is only written). import_model.py makes a workdir of a `Foreign`, export.py
writes one, with model_card.py; its keys are in export_keys.py.
"""
