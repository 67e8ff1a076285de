"""The paper's base model on WMT 2014 English-French.

    python launch.py --config=configs/wmt_enfr_base.py      # or :t2t_v1, :t2t_v3

Hardware: 6.66 GB of downloads (40 million pairs), about 3 GB of memory to prepare the corpus
(extrapolated from 400,000 pairs) and eight accelerators. Expected: 38.1 BLEU on newstest2014 (the
paper, on tokenised text). We have not run it to the end.
"""

from ml_collections import ConfigDict

from configs import wmt_base


def get_config(preset: str = "paper") -> ConfigDict:
    config = wmt_base.get_config(preset)
    config.data.corpus = "wmt14_translate/fr-en"
    config.data.target_language = "fr"
    config.vocabulary.size = 32_000
    return config
