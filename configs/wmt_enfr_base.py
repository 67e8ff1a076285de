"""The paper's base model on WMT 2014 English-French.

    python launch.py --config=configs/wmt_enfr_base.py      # or :t2t_v1, :t2t_v3

Wants 6.66 GB of downloads (40 million pairs), some 3 GB of memory to make them a corpus (by what
400,000 pairs took) and eight accelerators. Expected: 38.1 BLEU on newstest2014 (the paper's, on
tokenised text). Not yet run by us to the end.
"""

from ml_collections import ConfigDict

from configs import wmt_base


def get_config(preset: str = "paper") -> ConfigDict:
    config = wmt_base.get_config(preset)
    config.data.corpus = "wmt14_translate/fr-en"
    config.data.target_language = "fr"
    config.vocabulary.size = 32_000
    return config
