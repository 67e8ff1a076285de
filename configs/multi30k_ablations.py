"""Multi30k, task 1: what each part of the Transformer is worth, a variant a row of the table.

    python launch.py --config=configs/multi30k_ablations.py:rotary --config.data.directory=FOLDER
    python launch.py --mode=sweep configs/sweeps/ablations.toml --config.data.directory=FOLDER

The second command trains all variants, and makes one table: scores, p-values against the first. All
have the same number of steps. 'base', the default, is the paper's model, and has three seeds there:
what these differ by is chance. FOLDER is that of multi30k.py, whose model this is; here it is
trained on an eighth as many positions, in shorter rows. docs/results.md has the table. Hardware:
one CPU core for five minutes a variant, fifteen for 'additive'.
"""

from ml_collections import ConfigDict

from configs import multi30k

VARIANTS = {
    "base": {},
    # Score functions (3.2.1, and models/attention.py); 'dot' is the paper's without its scaling.
    "dot": {"model.score": "dot"},
    "general": {"model.score": "general"},
    "additive": {"model.score": "additive"},
    "cosine": {"model.score": "cosine"},
    # Positions (3.5).
    "no_positions": {"model.positions": "none"},
    "learned": {"model.positions": "learned", "model.max_positions": 256},
    "rotary": {"model.positions": "rotary"},
    "shaw": {"model.positions": "shaw"},
    "concatenated_positions": {"model.positions": "appended"},
    # Projections of attention (3.2.2), and the feed-forward network (3.3).
    "shared_qk": {"model.mixer": "shared(projections='qk')"},
    "shared_qkv": {"model.mixer": "shared(projections='qkv')"},
    "no_projections": {"model.mixer": "shared(projections='identity')"},
    "no_feed_forward": {"model.feed_forward": "none"},
    # Normalisation and residual connections (3.1).
    "pre_norm": {"model.residual": "pre", "model.final_norm": True},
    "rms_norm": {"model.norm": "rms"},
    "no_norm": {"model.norm": "none"},
    "no_residual": {"model.residual": "none"},
    "no_residual_no_norm": {"model.residual": "none", "model.norm": "none"},
}


def get_config(variant: str = "base") -> ConfigDict:
    if variant not in VARIANTS:
        raise ValueError(f"variants are {', '.join(VARIANTS)}, found {variant!r}")
    config = multi30k.get_config()
    # Shorter rows: 'additive' makes an array of the size of a head for each pair of positions.
    config.data.max_length = config.data.row_length = 64
    config.data.batch_tokens = 2048
    config.optimizer.schedule.warmup_steps = 400
    config.optimizer.schedule.factor = 1.0
    config.train.num_steps = 1000
    config.evaluate.every = 500
    config.update_from_flattened_dict(VARIANTS[variant])
    return config
