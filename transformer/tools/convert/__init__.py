"""--mode=import and --mode=export: converts models of other programs to workdirs, and back.

Read matrices.py first, which converts the layout of arrays (arrays.py reads and writes their
files), then forms.py, which refuses models that a program cannot represent; then a program:
marian.py, marian_config.py and marian_tokenizer.py (Hugging Face's Marian, in which OPUS-MT is
published; read and written; piece_table.py is its vocabulary here), or ctranslate2_write.py
(CTranslate2; written only). import_model.py makes a workdir from a folder. export.py, with
model_card.py, writes a folder from a workdir; its keys are in export_keys.py. new_folders.py makes
a folder that is complete or absent.
"""
