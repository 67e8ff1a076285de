"""Classification of your own texts: every key with its default.

    python launch.py --config=configs/classification.py --workdir=runs/classes \
        --config.data.directory=FOLDER

FOLDER holds train.tsv, validation.tsv and test.tsv (or .tsv.gz, .tsv.xz), a line LABEL<tab>TEXT a
text; with --config.data.num_texts=2 LABEL<tab>A<tab>B. Then, for texts without labels,

    python launch.py --mode=classify --workdir=runs/classes < texts.txt

The model is an encoder-only Transformer for about 100,000 texts. Hardware: a GPU, or a laptop for
an hour or two (a step takes 1.65 s of CPU time); korean_reviews.py has a smaller one, for five
minutes.
"""

from ml_collections import ConfigDict

from configs import _keys, _layers, _run, _vocabulary

KEYS = {
    **_run.KEYS,
    **_layers.KEYS,
    **_vocabulary.KEYS,
    "task": "classification",
    # Or 'self_attentive', 'intra_attention', of two texts 'decomposable' (transformer/registry.py),
    # with their own keys of config.model.
    "architecture": "text_classifier",
    "data.directory": "",  # folder of the files
    "data.data_dir": "~/tensorflow_datasets",  # token ids
    # Files of LABEL<tab>TEXT lines, or parts of them: 'all.tsv[:90%]', 'a.tsv,b.tsv'.
    "data.train": "train.tsv",
    "data.validation": "validation.tsv",
    "data.test": "test.tsv",  # "": none, the final score is of validation
    "data.num_texts": [1, (1, 2)],  # of a line; 2: lines are LABEL<tab>A<tab>B
    # Pieces, with the start symbol; the rest of a text is not read. Of two texts each has half.
    "data.max_length": [128, "at least 2"],
    "data.batch_tokens": 8192,  # positions of a batch, padding included
    "data.num_classes": 2,  # for --mode=plan; a run fills in those of its texts
    "data.fingerprint": "",  # hash of the training texts; filled in by the run
    "vocabulary.kind": ["bpe", ("bpe", "unigram", "characters")],  # SentencePiece has the first two
    "vocabulary.labels_fingerprint": "",  # hash of the classes; filled in by the run
    "model.max_positions": [128, "at least 0"],  # rows of the table of learned positions
    # Of all tokens; 'first': that of the start symbol (BERT).
    "model.pooling": ["mean", ("mean", "first")],
    "loss.label_smoothing": [0.0, "at least 0 and below 1"],
    # Read by --mode=classify: LABEL<tab>PROBABILITY; or 'json', with every class.
    "classify.format": ["text", ("text", "json")],
    "classify.batch_size": [256, "at least 1"],  # lines that are computed at a time
    "classify.chunk_lines": [4096, "at least 1"],  # lines to sort by length at a time
}


def get_config() -> ConfigDict:
    config = _keys.make(KEYS)
    config.vocabulary.update(size=8000, max_sentences=1_000_000)
    set_model_and_optimizer(config)
    return config


def set_model_and_optimizer(config: ConfigDict) -> None:
    """Sets the keys of every run in which encoders of texts differ from the paper's model."""
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
    # Warm-up included; a reference, which follows num_steps when that is overridden.
    config.optimizer.schedule.decay_steps = config.train.get_oneway_ref("num_steps")

    config.train.num_steps = 3000
    config.train.save_every = 300
    config.evaluate.every = 300
    config.evaluate.weights = "best"  # by accuracy on the validation set
