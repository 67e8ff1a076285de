"""Multi30k, task 1: 29,000 image captions, English to German.

    python launch.py --config=configs/multi30k.py --config.data.directory=FOLDER

The variant multi30k.py:record has the best BLEU after an hour of two cores (docs/records.md).
FOLDER holds the raw files of the dataset (github.com/multi30k/dataset, data/task1/raw):
train.en.gz, val.de.gz, ...

Measured on 2 CPU cores, from the raw files to the score, 2,023,936 parameters, test_2016_flickr:
38.7 BLEU and 62.5 chrF with the best checkpoint, 38.9 BLEU with --config.evaluate.weights=average
(sacreBLEU nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0, cased and detokenised). It
took 65 minutes of CPU time with validation, 73 minutes of wall time on a shared machine; step 3000,
after 52 minutes, scored 37.0 BLEU.
"""

from ml_collections import ConfigDict

from configs import parallel_text

VARIANTS = {"paper": {}, "record": {"optimizer.moving_average": 0.999}}


def get_config(variant: str = "paper") -> ConfigDict:
    if variant not in VARIANTS:
        raise ValueError(f"the variants are {', '.join(VARIANTS)}, found {variant!r}")
    config = parallel_text.get_config()
    config.data.source_language = "en"
    config.data.target_language = "de"
    config.data.directory = "data/multi30k/raw"
    config.data.validation = "val"
    config.data.test = "test_2016_flickr"
    config.data.batch_tokens = 4096
    config.vocabulary.size = 5000
    config.model.d_model = 128
    config.model.d_ff = 512
    config.model.num_layers = 3
    config.model.dropout_rate = 0.2
    config.optimizer.schedule.warmup_steps = 2000
    config.optimizer.schedule.factor = 1.5
    config.train.num_steps = 4000
    config.train.save_every = 250
    config.evaluate.every = 1000
    config.decode.max_length = 128
    config.update_from_flattened_dict(VARIANTS[variant])
    return config
