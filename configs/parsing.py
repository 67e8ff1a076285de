"""Constituency parsing (paper, section 6.3): every key with its default, the paper's on the WSJ.

    python launch.py --config=configs/parsing.py --config.data.directory=FOLDER
    python launch.py --config=configs/parsing.py:small --config.data.directory=FOLDER
    python launch.py --mode=parse --workdir=runs/parsing-small < sentences.txt

FOLDER holds treebanks in brackets, plain, .gz or .xz: train.trees, dev.trees and, for the first
command, test.trees. Of the Wall Street Journal (LDC99T42) they are sections 2 to 21, 22 and 23:

    cat wsj/0[2-9]/*.mrg wsj/1?/*.mrg wsj/2[01]/*.mrg > FOLDER/train.trees

The paper gives the model's size, the vocabulary, the beam and the longest output, but no number of
steps. Dropout, rate and warm-up are those of tensor2tensor's transformer_parsing_base. The paper's
F1 on section 23 is 91.3. It is 92.7 with 17M further sentences, parsed by other parsers, as in
--config.data.train=train.trees,more.trees, and --config.vocabulary.size=32000.

parsing.py:small is for the 18,951 training trees of CRAFT (github.com/UCDenver-ccp/CRAFT). It takes
validation from their end, and its test set is CRAFT's dev.trees: F1 65.1 after 50 minutes of two
cores, in bfloat16 on a Xeon with AMX (--config.model.dtype=bfloat16). A step in float32 takes 1.3
times as long.
"""

from ml_collections import ConfigDict

from configs import _keys, _run, _vocabulary, translation

SHARED = ("model.", "loss.", "decode.")  # the groups that are translation's

KEYS = {
    **_run.KEYS,
    **_vocabulary.KEYS,
    **{key: entry for key, entry in translation.KEYS.items() if key.startswith(SHARED)},
    "task": "parsing",
    "architecture": "transformer",  # the model: a name in transformer/registry.py
    "data.directory": "",  # folder of the treebanks
    "data.data_dir": "~/tensorflow_datasets",  # for token ids
    # Files of trees, or parts of them, cut between lines: 'all.trees[:90%]', 'a.mrg,b.mrg'.
    "data.train": "train.trees",
    "data.validation": "dev.trees",
    "data.test": "test.trees",  # "": none, the final score is validation's
    # Longest side of a training pair, words in pieces or a tree in symbols; longer are dropped.
    "data.max_length": [256, "at least 1"],
    "data.row_length": [256, "at least 1"],  # positions of a row, per side
    "data.batch_tokens": 25_000,  # symbols of a batch, padding included
    "data.pack": True,  # several pairs share a row; False: one pair per row, by length
    "data.fingerprint": "",  # hash of the training trees; filled in by the run
    "vocabulary.kind": ["bpe", ("bpe", "unigram")],  # of the words
    "vocabulary.brackets_fingerprint": "",  # hash of the symbols; filled in by the run
    # Embeddings that share a matrix: 'target' (target, output), or 'none'.
    "model.tied_embeddings": ["target", ("target", "none")],
    "decode.language_model": ["", ("",)],  # none, because they are of texts
    "evaluate.samples": [3, "at least 0"],  # trees to log after each validation
    "parse.format": ["text", ("text", "json")],  # 'json': one object per line, with 'source'
}

VARIANTS = {
    "paper": {
        "vocabulary.size": 16_000,
        "model.num_layers": 4,
        "model.d_model": 1024,
        "model.tied_embeddings": "none",
        "model.dropout_rate": 0.2,
        "model.attention_dropout_rate": 0.2,
        "optimizer.schedule.factor": 0.5,
        "optimizer.schedule.warmup_steps": 16_000,
        "decode.beam_width": 21,
        "decode.length_alpha": 0.3,
        "decode.extra_length": 300,
    },
    "small": {
        "data.train": "train.trees[:95%]",
        "data.validation": "train.trees[95%:]",
        "data.test": "dev.trees",
        "data.max_length": 192,
        "data.row_length": 192,
        "data.batch_tokens": 2048,
        "vocabulary.size": 4000,
        "vocabulary.character_coverage": 1.0,
        "model.num_layers": 3,
        "model.d_model": 128,
        "model.d_ff": 512,
        "model.num_heads": 4,
        # Not in the paper: after 1,000 steps of 4,096 symbols rotary had 0.78 nats a symbol of
        # validation, sinusoids 0.94.
        "model.positions": "rotary",
        "model.residual": "pre",
        "model.final_norm": True,
        "model.dropout_rate": 0.1,
        "optimizer.schedule.factor": 1.0,
        "optimizer.schedule.warmup_steps": 2000,
        "train.num_steps": 12_000,
        "train.save_every": 500,
        "evaluate.every": 3000,
        "evaluate.weights": "best",
        "decode.length_alpha": 0.3,
        "decode.extra_length": 300,
    },
}


def get_config(variant: str = "paper") -> ConfigDict:
    if variant not in VARIANTS:
        raise ValueError(f"the variants are {', '.join(VARIANTS)}, found {variant!r}")
    config = _keys.make(KEYS)
    # A reference, so that the schedule follows an overridden config.model.d_model.
    config.optimizer.schedule.d_model = config.model.get_oneway_ref("d_model")
    config.update_from_flattened_dict(VARIANTS[variant])
    return config
