"""Korean to English on the built-in corpus: from data to test score in minutes on a laptop's CPU.

    python launch.py --config=configs/quickstart.py
    echo 나는 사과를 좋아해 | python launch.py --mode=translate --workdir=runs/quickstart

The corpus is synthetic: transformer/tools/quickstart generates it. Measured on 2 CPU cores: 2 to 3
minutes from an empty folder to the score, test BLEU 99.3.
"""

from ml_collections import ConfigDict

from configs import small_text


def get_config() -> ConfigDict:
    config = small_text.get_config()
    config.data.corpus = "builtin"
    config.data.directory = ""
    config.data.source_language = "ko"
    config.data.target_language = "en"
    config.model.dropout_rate = 0.1
    return config
