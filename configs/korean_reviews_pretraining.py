"""Masked pre-training on the Korean film reviews, without their labels.

    python launch.py --config=configs/korean_reviews_pretraining.py --config.data.directory=FOLDER

FOLDER is that of configs/korean_reviews.py. Its variant `pretrained` starts from the result.
Hardware: two CPU cores for ten minutes.
"""

from ml_collections import ConfigDict

from configs import korean_reviews, masked_language


def get_config() -> ConfigDict:
    config, classifier = masked_language.get_config(), korean_reviews.get_config()
    config.data.train = "train.tsv"
    config.data.validation = "dev.tsv"
    config.data.labelled = True
    config.data.max_length = classifier.data.max_length
    config.data.batch_tokens = 4096
    config.vocabulary.size = classifier.vocabulary.size
    config.model.update({name: classifier.model[name] for name in config.model})
    config.model.dropout_rate = 0.1
    config.optimizer.schedule.peak_value = 2e-3
    config.optimizer.schedule.warmup_steps = 200
    config.train.num_steps = 3000
    config.train.save_every = config.evaluate.every = 500
    return config
