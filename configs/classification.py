"""Classification of your own texts: every key with its default.

    python launch.py --config=configs/classification.py --workdir=runs/classes \
        --config.data.directory=FOLDER

FOLDER holds train.tsv, validation.tsv and test.tsv (or .tsv.gz, .tsv.xz) with lines
LABEL<tab>TEXT, or LABEL<tab>A<tab>B with --config.data.num_texts=2. Then classify texts by

    python launch.py --mode=classify --workdir=runs/classes < texts.txt

The model is an encoder-only Transformer for about 100,000 texts. Hardware: a GPU, or a laptop for
an hour or two (a step takes 1.65 s of CPU time); the model of korean_reviews.py takes five minutes.
"""

from ml_collections import ConfigDict

from configs import _keys, _layers, _run, _vocabulary

KEYS = {
    **_run.KEYS,
    **_layers.KEYS,
    **_vocabulary.KEYS,
    "task": "classification",
    # Or 'self_attentive', 'intra_attention', or for two texts 'decomposable', each with its own
    # keys of config.model (transformer/registry.py).
    "architecture": "text_classifier",
    "data.directory": "",  # folder of the files
    "data.data_dir": "~/tensorflow_datasets",  # for token ids
    # Files of LABEL<tab>TEXT lines, or parts of them: 'all.tsv[:90%]', 'a.tsv,b.tsv'.
    "data.train": "train.tsv",
    "data.validation": "validation.tsv",
    "data.test": "test.tsv",  # "": none, the final score is validation's
    "data.num_texts": [1, (1, 2)],  # per line; 2: lines are LABEL<tab>A<tab>B
    # Pieces with the start symbol; longer texts are truncated. Two texts have half each.
    "data.max_length": [128, "at least 2"],
    "data.batch_tokens": 8192,  # positions of a batch, padding included
    "data.num_classes": 2,  # for --mode=plan; filled in by the run
    "data.fingerprint": "",  # hash of the training texts; filled in by the run
    "vocabulary.kind": ["bpe", ("bpe", "unigram", "characters")],  # the first two by SentencePiece
    "vocabulary.labels_fingerprint": "",  # hash of the classes; filled in by the run
    "model.max_positions": [128, "at least 0"],  # rows of the table of learned positions
    # The 'mean' of all tokens, or the 'first', the start symbol (BERT).
    "model.pooling": ["mean", ("mean", "first")],
    "loss.label_smoothing": [0.0, "at least 0 and below 1"],
    # Output of --mode=classify: LABEL<tab>PROBABILITY, or 'json' with every class.
    "classify.format": ["text", ("text", "json")],
    "classify.batch_size": [256, "at least 1"],  # lines
    "classify.chunk_lines": [4096, "at least 1"],  # lines to sort by length at a time
}


def get_config() -> ConfigDict:
    config = _keys.make(KEYS)
    config.vocabulary.update(size=8000, max_sentences=1_000_000)
    set_model_and_optimizer(config)
    return config


def set_model_and_optimizer(config: ConfigDict) -> None:
    """Sets the keys in which encoders of texts differ from the paper's model."""
    config.model.d_model = 256
    config.model.d_ff = 1024
    config.model.num_heads = 4
    config.model.num_layers = 4
    config.model.residual = "pre"  # BERT's is 'post'
    config.model.final_norm = True
    config.model.positions = "learned"
    config.model.feed_forward = "gelu"
    config.model.attention_bias = True
    config.model.attention_dropout_rate = 0.1

    config.optimizer.name = "adamw"
    config.optimizer.arguments = ConfigDict()
    config.optimizer.arguments.b1 = 0.9
    config.optimizer.arguments.b2 = 0.98
    config.optimizer.arguments.weight_decay = 0.01
    config.optimizer.clip_norm = 1.0
    config.optimizer.schedule = ConfigDict()
    config.optimizer.schedule.name = "warmup_cosine_decay_schedule"
    config.optimizer.schedule.init_value = 0.0
    config.optimizer.schedule.peak_value = 3e-4
    config.optimizer.schedule.warmup_steps = 300
    # Including the warm-up; a reference, which follows an overridden num_steps.
    config.optimizer.schedule.decay_steps = config.train.get_oneway_ref("num_steps")

    config.train.num_steps = 3000
    config.train.save_every = 300
    config.evaluate.every = 300
    config.evaluate.weights = "best"  # by accuracy on the validation set
