"""The keys that only --mode=export reads."""

KEYS = {
    # 'ctranslate2' is for translation only; 'safetensors': our params by their paths.
    "export.format": ["huggingface", ("huggingface", "ctranslate2", "safetensors")],
    "export.licence": "",  # for the model card, such as 'cc-by-4.0'
    # For ctranslate2.
    "export.quantization": ["float32", ("float32", "int8", "int16", "float16", "bfloat16")],
    # For huggingface: the maximum pieces of an output in transformers; 0: decode.max_length +
    # decode.extra_length.
    "export.max_length": [0, "at least 0"],
}
