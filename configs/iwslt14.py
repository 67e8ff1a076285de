"""IWSLT 2014, German to English: 160,000 pairs of TED talks, from your own files.

    python launch.py --config=configs/iwslt14.py --config.data.directory=FOLDER

FOLDER holds train.de and train.en, valid.de and valid.en, test.de and test.en: detokenised, cased
text, as sacreBLEU expects it. The model is fairseq's transformer_iwslt_de_en. Hardware: one GPU for
about an hour. Expected: 33.7 BLEU (lower-cased, sacreBLEU, Joey NMT) to 35 BLEU (lower-cased,
tokenised). We have not run it, because the data may not be redistributed.
"""

from ml_collections import ConfigDict

from configs import parallel_text


def get_config() -> ConfigDict:
    config = parallel_text.get_config()
    config.data.source_language = "de"
    config.data.target_language = "en"
    config.data.directory = "data/iwslt14"
    config.data.validation = "valid"
    config.data.batch_tokens = 4096
    config.vocabulary.size = 10_000
    config.model.d_model = 512
    config.model.d_ff = 1024
    config.model.dropout_rate = 0.3
    config.train.num_steps = 50_000
    config.evaluate.every = 2000
    config.evaluate.patience = 10
    return config
