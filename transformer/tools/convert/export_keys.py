"""The keys that only --mode=export reads."""

from ml_collections import ConfigDict


def keys() -> ConfigDict:
    config = ConfigDict()
    config.export = ConfigDict()
    # Or 'ctranslate2' (translation only), or 'safetensors': our params by their paths.
    config.export.format = "huggingface"
    config.export.licence = ""  # for the model card, such as 'cc-by-4.0'
    # For ctranslate2: or 'int8', 'int16', 'float16', 'bfloat16'.
    config.export.quantization = "float32"
    # For huggingface: the most pieces of an output when transformers generates; 0: what an imported
    # model came with, else decode.max_length + decode.extra_length.
    config.export.max_length = 0
    return config
