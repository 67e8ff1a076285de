"""Masked language modelling on your own text: every key with its default, a small BERT.

    python launch.py --config=configs/masked_language.py --workdir=runs/pretrained \
        --config.data.directory=FOLDER

FOLDER holds train.txt and validation.txt (or .txt.gz, .txt.xz), a text a line. A classifier of the
same config.model, but for `pooling`, starts from it by

    python launch.py --config=configs/classification.py --config.data.directory=LABELLED \
        --config.train.init_from=runs/pretrained --config.train.init_skip=head \
        --config.vocabulary.model=runs/pretrained/vocabulary

Hardware: a GPU for hours; on two CPU cores, the small model of korean_reviews_pretraining.py.
"""

from ml_collections import ConfigDict

from configs import classification


def get_config() -> ConfigDict:
    config = classification.get_config()
    config.task = "masked_language"
    config.architecture = "masked_language_model"
    del config.model.pooling, config.classify, config.data.num_classes
    del config.vocabulary.labels_fingerprint

    # Files of a text a line, or parts of them: 'all.txt[:90%]', 'a.txt,b.txt'.
    config.data.train = "train.txt"
    config.data.validation = "validation.txt"
    config.data.test = ""  # "": none, the final score is of validation
    # True: lines have a label, which is not read, and `num_texts` texts, each of which is one here.
    config.data.labelled = False
    config.data.pack = True  # several texts share a row; False: one text per row, by length
    config.data.mask_share = 0.15  # of the tokens are to be predicted

    config.loss.smoothed_over = "all_classes"  # or 'wrong_classes', as tensor2tensor does
    config.loss.blocks = 1  # blocks of masked tokens whose logits are computed one after the other

    config.optimizer.schedule.peak_value = 5e-4
    config.optimizer.schedule.warmup_steps = 1000
    config.train.num_steps = 30_000
    config.train.save_every = config.evaluate.every = 1000
    return config
