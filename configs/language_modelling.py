"""Language modelling: every key with its default, a small GPT on a user's own text.

    python launch.py --config=configs/language_modelling.py --config.data.directory=FOLDER

FOLDER holds train.txt and validation.txt. Other configs import this one and set the keys in which
they differ. Begin with configs/own_text.py.
"""

from ml_collections import ConfigDict

from configs import _keys, _layers, _run, _vocabulary

KEYS = {
    **_run.KEYS,
    **_layers.KEYS,
    **_vocabulary.KEYS,
    "task": "language_modelling",
    "architecture": "language_model",  # the model: a name in transformer/registry.py
    "data.directory": "",  # folder of the text files
    "data.data_dir": "~/tensorflow_datasets",  # for token ids
    # Files in data.directory, plain, .gz or .xz, separated by commas. A part of a file is
    # 'all.txt[:90%]' (of its lines) or 'all.txt[90%: of characters]'.
    "data.train": "train.txt",
    "data.validation": "validation.txt",
    "data.test": "",  # "": none, the final score is validation's
    "data.context_length": [256, "at least 1"],  # tokens of a row
    "data.batch_tokens": 8192,  # tokens of a batch
    "data.fingerprint": "",  # hash of the training text; filled in by the run
    # Of SentencePiece, or the text's 'characters'.
    "vocabulary.kind": ["bpe", ("bpe", "unigram", "characters")],
    "model.max_positions": [256, "at least 0"],  # rows of the table of learned positions
    "model.tied_embeddings": True,  # embedding and output are one matrix
    "loss.label_smoothing": [0.0, "at least 0 and below 1"],
    # 'wrong_classes': as tensor2tensor does.
    "loss.smoothed_over": ["all_classes", ("all_classes", "wrong_classes")],
    # Blocks of positions, to compute logits block by block and save memory. 1: all at once.
    "loss.blocks": [1, "at least 1"],
    "evaluate.batch_tokens": 8192,  # tokens of a validation batch
    # Texts of generate.max_tokens tokens, without a prompt, to log after each validation.
    "evaluate.samples": [2, "at least 0"],
    # Tokens of a continuation.
    "generate.max_tokens": [200, "at least 1"],
    # End after this many line breaks; 0: only after max_tokens.
    "generate.lines": [0, "at least 0"],
    "generate.num_samples": [1, "at least 1"],  # continuations of each prompt
    "generate.temperature": [1.0, "above 0 and at most 1000"],
    # Sample from the k likeliest tokens; 0: all, 1: greedy.
    "generate.top_k": [0, "at least 0"],
    # Nucleus sampling: from the likeliest tokens with this total probability.
    "generate.top_p": [1.0, "above 0 and at most 1"],
    "generate.seed": [0, "at least 0"],
    "generate.format": ["text", ("text", "json")],  # 'json': one object per line, with 'prompt'
    "generate.stream": False,  # write text as it is generated, as on a terminal; not with 'json'
    "generate.batch_size": [32, "at least 1"],  # continuations generated together
}


def get_config() -> ConfigDict:
    config = _keys.make(KEYS)
    # With 'characters', only --mode=plan reads the size.
    config.vocabulary.update(size=8000, character_coverage=1.0, max_sentences=1_000_000)
    # GPT-2, but for its width.
    config.model.d_model = 384
    config.model.d_ff = 1536
    config.model.num_heads = 6
    config.model.residual = "pre"
    config.model.final_norm = True
    config.model.norm = "layer(epsilon=1e-5)"
    config.model.positions = "learned"
    config.model.feed_forward = "gelu"

    config.optimizer.name = "adamw"  # decays all params; nanoGPT decays matrices only
    config.optimizer.arguments = {"b1": 0.9, "b2": 0.99, "eps": 1e-8, "weight_decay": 0.1}
    config.optimizer.clip_norm = 1.0
    config.optimizer.schedule = {
        "name": "warmup_cosine_decay_schedule",
        "init_value": 0.0,
        "peak_value": 1e-3,
        "end_value": 1e-4,
        "warmup_steps": 100,
        "decay_steps": config.train.get_oneway_ref("num_steps"),
    }

    config.train.num_steps = 5000
    config.train.save_every = 500
    config.evaluate.every = 500
    config.evaluate.weights = "best"
    return config
