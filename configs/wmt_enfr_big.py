"""The paper's big model on WMT 2014 English-French.

    python launch.py --config=configs/wmt_enfr_big.py       # or :t2t_v1, :t2t_v3

Hardware: 6.66 GB of downloads, as for wmt_enfr_base.py, and eight accelerators or a slice of a TPU
pod for days. Expected: 41.8 BLEU on newstest2014 (the paper's abstract and Table 2; its section 6.1
says 41.0). We have not run it to the end.
"""

from ml_collections import ConfigDict

from configs import wmt_big, wmt_enfr_base


def get_config(preset: str = "paper") -> ConfigDict:
    config = wmt_enfr_base.get_config(preset)
    wmt_big.enlarge(config)
    config.model.dropout_rate = 0.1  # section 6.1: 0.1 instead of 0.3 for this pair
    if preset == "t2t_v3":  # transformer_big_enfr
        config.model.d_ff = 8192
        config.model.tied_embeddings = "none"
    return config
