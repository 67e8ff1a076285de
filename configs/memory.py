"""Copying and associative recall, trained short and tested long: every key with its default.

    python launch.py --config=configs/memory.py --workdir=runs/copy
    python launch.py --config=configs/memory.py:recall --workdir=runs/recall \
        --config.model.positions=rotary
"""

from ml_collections import ConfigDict

from configs import _layers, _run

VARIANTS = {
    "copy": {},
    "recall": {"data.problem": "recall"},
}


def get_config(variant: str = "copy") -> ConfigDict:
    if variant not in VARIANTS:
        raise ValueError(f"the variants are {', '.join(VARIANTS)}, found {variant!r}")
    config = _run.get_config()
    config.task = "memory"
    config.architecture = "language_model"  # a decoder-only model of transformer/registry.py

    config.data = ConfigDict()
    config.data.problem = "copy"  # or 'recall', of the values of keys
    config.data.symbols = 32  # to be copied; in recall, as many keys, and as many values
    # An item's length is what it has to remember: symbols, or keys and values. In training it is
    # drawn between these two.
    config.data.min_length = 2
    config.data.max_length = 32
    config.data.batch_tokens = 2048  # tokens of a batch, padding included
    config.data.test_lengths = (32, 64, 128, 256, 512)  # validation has those up to max_length
    config.data.test_items = 64  # of each length

    config.model = _layers.get_config()
    config.model.d_model = 64
    config.model.d_ff = 256
    config.model.num_heads = 4
    config.model.num_layers = 2
    config.model.norm = "pre"
    config.model.final_norm = True
    config.model.dropout_rate = 0.0  # an item does not come twice: nothing can be memorised
    config.model.max_positions = (
        1024  # rows of the table of learned positions, for a row of copying
    )
    config.model.tied_embeddings = True  # embedding and output are one matrix

    config.optimizer.name = "adamw"
    config.optimizer.arguments = {"b1": 0.9, "b2": 0.98, "eps": 1e-9, "weight_decay": 0.0}
    config.optimizer.clip_norm = 1.0
    config.optimizer.schedule = {
        "name": "warmup_cosine_decay_schedule",
        "init_value": 0.0,
        "peak_value": 3e-3,
        "end_value": 1e-4,
        "warmup_steps": 100,
        "decay_steps": config.train.get_ref("num_steps"),
    }

    config.train.num_steps = 4000
    config.train.save_every = 1000
    config.evaluate.every = 500
    config.evaluate.weights = "best"
    config.evaluate.batch_tokens = 8192  # tokens of a batch of validation and test
    config.update_from_flattened_dict(VARIANTS[variant])
    return config
