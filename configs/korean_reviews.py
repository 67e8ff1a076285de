"""Korean film reviews, good or bad, by a Transformer of 1.2M parameters and by earlier models.

    python launch.py --config=configs/korean_reviews.py --config.data.directory=FOLDER

Variants: korean_reviews.py:pretrained, :self_attentive (Lin et al. 2017) and :intra_attention
(Cheng et al. 2016). FOLDER holds train.tsv.xz, dev.tsv.xz and test.tsv.xz: 60,000, 4,000 and 5,000
reviews in lines LABEL<tab>TEXT. `pretrained` starts from runs/korean_reviews_pretraining; train it
first by configs/korean_reviews_pretraining.py. Hardware: two CPU cores for five to ten minutes.
"""

from ml_collections import ConfigDict

from configs import classification

PRETRAINED = "runs/korean_reviews_pretraining"
VARIANTS = ("scratch", "pretrained", "self_attentive", "intra_attention")


def get_config(variant: str = "scratch") -> ConfigDict:
    if variant not in VARIANTS:
        raise ValueError(f"the variants are {', '.join(VARIANTS)}, found {variant!r}")
    config = classification.get_config()
    config.data.validation = "dev.tsv"
    config.data.max_length = 64
    config.data.batch_tokens = 2048
    config.vocabulary.size = 4000
    config.model.d_model = 128
    config.model.d_ff = 512
    config.model.num_layers = 3
    config.model.max_positions = 64
    config.model.dropout_rate = 0.2
    config.optimizer.schedule.peak_value = 1e-3
    config.optimizer.schedule.warmup_steps = 200
    config.train.num_steps = 2000
    config.train.save_every = config.evaluate.every = 200
    if variant == "pretrained":
        config.train.init_from, config.train.init_skip = PRETRAINED, "head"
        config.vocabulary.model = f"{PRETRAINED}/vocabulary"
    if variant in ("self_attentive", "intra_attention"):
        config.architecture = variant
        config.model = {
            "d_model": 128,
            "state_size": 128,
            "forget_bias": 1.0,  # opens the LSTM's forget gate
            "attention_size": 64,
            "d_ff": 128,
            "dropout_rate": 0.3,
        }
    if variant == "self_attentive":
        config.model.num_hops = 4
        config.model.penalty = 0.1
    return config
