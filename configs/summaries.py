"""Summaries of passages by a recurrent model with attention in the decoder (Paulus et al. 2017).

    python -m benchmarks.summaries make TREES FOLDER
    python launch.py --config=configs/summaries.py --config.data.directory=FOLDER
    python -m benchmarks.summaries score FOLDER runs/summaries

In the variant summaries.py:decoder the decoder attends to its own earlier states; :both also gives
less weight to positions seen before. The default, :encoder, has neither. All have as many
parameters within 1 %. The first command makes the pairs of docs/results.md from a treebank. ROUGE,
in the third command and by --config.evaluate.scores=rouge, needs pip install rouge-score. Hardware:
a CPU core for five to eleven minutes.
"""

from ml_collections import ConfigDict

from configs import multi30k_rnn

VARIANTS = {
    "encoder": {"temporal": False, "decoder_attention": False, "d_model": 132},
    "decoder": {"temporal": False, "decoder_attention": True},
    "both": {"temporal": True, "decoder_attention": True},
}


def get_config(variant: str = "encoder") -> ConfigDict:
    if variant not in VARIANTS:
        raise ValueError(f"expected a variant {', '.join(VARIANTS)}, found {variant!r}")
    config = multi30k_rnn.get_config("intra")
    config.data.source_language = "text"  # train.text
    config.data.target_language = "summary"
    config.data.validation = "validation"
    config.data.test = "test"
    config.data.max_length = config.data.row_length = 176
    config.data.batch_tokens = 4096
    config.vocabulary.size = 3000
    config.model.d_model = 128
    config.model.dropout_rate = 0.2
    config.model.update(VARIANTS[variant])
    config.train.num_steps = 1000
    config.train.save_every = config.evaluate.every = 250
    config.decode.max_length = 256
    config.decode.extra_length = 1  # because a summary is not longer than its text
    return config
