"""--mode=import and --mode=export: models of other programs, their files to ours and back.

Read matrices.py first, how another program's arrays lie in ours (arrays.py reads and writes its
files), and forms.py, which models have a form there; then a program: marian.py, marian_config.py
and marian_tokenizer.py (Hugging Face's Marian, which OPUS-MT publishes, read and written), or
ctranslate2_write.py (CTranslate2, written only). import_model.py makes a workdir of a folder,
export.py writes one, with model_card.py; its keys are in export_keys.py.
"""
