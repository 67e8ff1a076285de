"""Masked language modelling on your own text: every key with its default, a small BERT.

    python launch.py --config=configs/masked_language.py --workdir=runs/pretrained \
        --config.data.directory=FOLDER

FOLDER holds train.txt and validation.txt (or .txt.gz, .txt.xz), one text per line. A classifier
with the same config.model, but for `pooling`, starts from it by

    python launch.py --config=configs/classification.py --config.data.directory=LABELLED \
        --config.train.init_from=runs/pretrained --config.train.init_skip=head \
        --config.vocabulary.model=runs/pretrained/vocabulary

Hardware: a GPU for hours; on two CPU cores, the small model of korean_reviews_pretraining.py.
"""

from ml_collections import ConfigDict

from configs import _keys, classification

LABELS = ("model.pooling", "data.num_classes", "vocabulary.labels_fingerprint", "classify.")
KEYS = {
    **{key: x for key, x in classification.KEYS.items() if not key.startswith(LABELS)},
    "task": "masked_language",
    "architecture": "masked_language_model",
    # Files with one text per line, or parts of them: 'all.txt[:90%]', 'a.txt,b.txt'.
    "data.train": "train.txt",
    "data.validation": "validation.txt",
    "data.test": "",  # "": none, the final score is validation's
    # True: lines have an unused label and `num_texts` separate texts.
    "data.labelled": False,
    "data.pack": True,  # several texts share a row; False: one text per row, by length
    "data.mask_share": [0.15, "above 0 and below 1"],  # share of tokens to predict
    "vocabulary.kind": [
        "bpe",
        ("bpe", "unigram"),
    ],  # not 'characters', whose unknown piece is the mask
    # 'wrong_classes': as tensor2tensor does.
    "loss.smoothed_over": ["all_classes", ("all_classes", "wrong_classes")],
    # Blocks of masked tokens, to compute logits block by block.
    "loss.blocks": [1, "at least 1"],
}


def get_config() -> ConfigDict:
    config = _keys.make(KEYS)
    config.vocabulary.update(size=8000, max_sentences=1_000_000)
    classification.set_model_and_optimizer(config)
    config.optimizer.schedule.peak_value = 5e-4
    config.optimizer.schedule.warmup_steps = 1000
    config.train.num_steps = 30_000
    config.train.save_every = config.evaluate.every = 1000
    return config
