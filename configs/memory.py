"""Copying and associative recall, trained short and tested long: every key with its default.

    python launch.py --config=configs/memory.py --workdir=runs/copy
    python launch.py --config=configs/memory.py:recall --workdir=runs/recall \
        --config.model.positions=rotary

Hardware: one CPU core for two and a half minutes. The accuracy by length, as measured by the sweeps
copy.toml and recall.toml (docs/results.md); training has lengths up to 32. A run's
evaluations.jsonl has it as accuracy_32, ...

                               32      64     128     256     512
    copy    interleaved     0.993   0.113   0.059   0.042   0.036
            rotary          0.996   0.035   0.030   0.031   0.032
            alibi           0.998   0.995   0.951   0.648   0.304
    recall  interleaved     0.078   0.038   0.015   0.007   0.005
            rotary          1.000   0.932   0.489   0.100   0.031
            alibi           0.972   0.854   0.518   0.201   0.060

Chance is 0.031 in copying, and 0.004 in recall.
"""

from ml_collections import ConfigDict

from configs import _keys, _layers, _run

VARIANTS = {
    "copy": {},
    "recall": {"data.problem": "recall", "data.symbols": 256},  # keys for items of 512
}

KEYS = {
    **_run.KEYS,
    **_layers.KEYS,
    "task": "memory",
    "architecture": "language_model",  # a decoder-only model of transformer/registry.py
    "data.problem": ["copy", ("copy", "recall")],  # 'recall': find the value of a key
    "data.symbols": [32, "at least 2"],  # to copy; in recall, as many keys, and as many values
    # The symbols, or keys and values, that an item must remember. Training draws a length between
    # min_length and max_length.
    "data.min_length": [2, "at least 2"],
    "data.max_length": 32,
    "data.batch_tokens": 2048,  # tokens of a batch, padding included
    "data.test_lengths": (32, 64, 128, 256, 512),  # in validation, only up to max_length
    "data.test_items": [64, "at least 1"],  # per length
    "model.max_positions": [1024, "at least 0"],  # of learned positions; the longest copy has 1,024
    "model.tied_embeddings": True,  # embedding and output are one matrix
    "evaluate.split": ["test", ("validation", "test")],
    "evaluate.batch_tokens": [8192, "at least 1"],  # tokens of a batch of validation and test
}


def get_config(variant: str = "copy") -> ConfigDict:
    if variant not in VARIANTS:
        raise ValueError(f"the variants are {', '.join(VARIANTS)}, found {variant!r}")
    config = _keys.make(KEYS)
    config.model.d_model = 64
    config.model.d_ff = 256
    config.model.num_heads = 4
    config.model.num_layers = 2
    config.model.residual = "pre"
    config.model.final_norm = True
    config.model.dropout_rate = 0.0  # no item comes twice, so none can be memorised

    config.optimizer.name = "adamw"
    config.optimizer.arguments = {"b1": 0.9, "b2": 0.98, "eps": 1e-9, "weight_decay": 0.0}
    config.optimizer.clip_norm = 1.0
    config.optimizer.schedule = {
        "name": "warmup_cosine_decay_schedule",
        "init_value": 0.0,
        "peak_value": 3e-3,
        "end_value": 1e-4,
        "warmup_steps": 100,
        "decay_steps": config.train.get_oneway_ref("num_steps"),
    }

    config.train.num_steps = 4000
    config.train.save_every = 1000
    config.evaluate.every = 500
    config.evaluate.weights = "best"
    config.update_from_flattened_dict(VARIANTS[variant])
    return config
