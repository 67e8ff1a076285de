"""The paper's big model on WMT 2014 English-German.

    python launch.py --config=configs/wmt_big.py            # or :t2t_v1, :t2t_v3

Hardware: eight accelerators or a slice of a TPU pod; 300,000 steps took the paper's authors 3.5
days on eight P100s. Expected: 28.4 BLEU on newstest2014 (the paper, on tokenised text with
compounds split). We have not run it to the end.
"""

from ml_collections import ConfigDict

from configs import wmt_base


def get_config(preset: str = "paper") -> ConfigDict:
    config = wmt_base.get_config(preset)
    enlarge(config)
    config.model.dropout_rate = 0.3
    return config


def enlarge(config: ConfigDict) -> None:
    """Sets the big model's sizes (paper, Table 3) and training length (sections 5.2 and 6.1)."""
    config.model.d_model = 1024
    config.model.d_ff = 4096
    config.model.num_heads = 16
    config.train.num_steps = 300_000
    config.train.save_every = 600  # ten minutes at the paper's 1.0 s per step
    config.train.keep = 20
    config.evaluate.average_last = 20
