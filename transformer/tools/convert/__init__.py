"""--mode=import and --mode=export: converts models of other programs to workdirs, and back.

Read matrices.py first, which converts the layout of arrays (arrays.py reads and writes their
files), then forms.py, which refuses models that a program cannot represent. marian.py,
marian_config.py and marian_tokenizer.py read and write Hugging Face's Marian, the format of
OPUS-MT; piece_table.py is its vocabulary. ctranslate2_write.py writes CTranslate2's format.
import_model.py makes a workdir from a folder. export.py, with model_card.py, writes a folder from a
workdir; its keys are in export_keys.py. new_folders.py makes folders atomically.
"""
