"""Translation: every key with its default, the paper's base model on WMT 2014 English-German.

    python launch.py --config=configs/translation.py

Other configs import this one and set the keys in which they differ. configs/wmt_base.py is this
config plus the presets of tensor2tensor (the authors' code).
"""

from ml_collections import ConfigDict

from configs import _keys, _layers, _run, _sampling, _vocabulary

KEYS = {
    **_run.KEYS,
    **_layers.KEYS,
    **_vocabulary.KEYS,
    "task": "translation",
    "architecture": "transformer",  # the model: a name in transformer/registry.py
    "data.corpus": "wmt14_translate/de-en",  # or 'parallel_text' (your files), or 'builtin'
    "data.source_language": "en",
    "data.target_language": "de",
    "data.directory": "",  # folder of parallel_text's files
    "data.data_dir": "~/tensorflow_datasets",  # WMT, and token ids
    # Split names of the corpus; with parallel_text STEM of STEM.de and STEM.en, or FILE,FILE.
    "data.train": "train",
    "data.validation": "validation",  # newstest2013
    "data.test": "test",  # newstest2014; "": none, the final score is of validation
    # Longest side of a training pair, in pieces with the end symbol; longer pairs are dropped.
    "data.max_length": [128, "at least 1"],
    "data.row_length": 128,  # positions of a row, per side
    "data.batch_tokens": 25_000,  # target positions of a batch, and as many source positions
    "data.pack": True,  # several pairs share a row; False: one pair per row, by length
    "data.fingerprint": "",  # hash of the training pairs; filled in by the run
    "vocabulary.shared": True,  # one vocabulary for both languages; False: one each
    # Of SentencePiece; 'table': an imported one.
    "vocabulary.kind": ["bpe", ("bpe", "unigram", "table")],
    "model.num_decoder_layers": [0, "at least 0"],  # 0: as many as the encoder's
    "model.decoder_mixer": "",  # '': the encoder's, model.mixer
    "model.max_positions": [0, "at least 0"],  # rows of the table of learned positions
    # Which embeddings are one matrix: 'all' (source, target, output), 'target' (target, output),
    # or 'none'.
    "model.tied_embeddings": ["all", ("all", "target", "none")],
    "model.output_bias": False,  # a bias of each piece's logit, as Marian has
    "loss.label_smoothing": [0.1, "at least 0 and below 1"],
    # 'wrong_classes': as tensor2tensor does.
    "loss.smoothed_over": ["all_classes", ("all_classes", "wrong_classes")],
    # Blocks of positions whose logits are computed one after the other, to save memory; with 'jit'
    # on several devices each block costs an all-reduce. Fewer if they do not divide row_length
    # (their gcd). 1: all logits at once.
    "loss.blocks": [4, "at least 1"],
    # sacreBLEU's tokeniser; 'zh' for Chinese, 'ja-mecab' for Japanese, 'ko-mecab' for Korean
    # targets; 'char': characters.
    "evaluate.tokenize": "13a",
    # Further scores: 'rouge', of summaries, or 'rouge_characters', of Korean ones (pip install
    # rouge-score). "": none.
    "evaluate.scores": "",
    "evaluate.samples": [3, "at least 0"],  # translations to log after each validation
    # Or 'sample'; or 'mbr', minimum Bayes risk over samples.
    "decode.method": ["beam", "a name in registry.METHODS"],
    "decode.beam_width": [4, "at least 1"],
    # 'gnmt': ((5 + length) / 6)^alpha, the paper's; 'power': length^alpha; or 'none'.
    "decode.length_penalty": ["gnmt", ("gnmt", "power", "none")],
    "decode.length_alpha": [0.6, "at least 0"],
    # The search ends when beam_width hypotheses are finished and no live beam is ahead of the best;
    # or 'full': when so many are finished, as in fairseq and CTranslate2; or 'ahead': as soon as
    # no live beam is ahead, which takes fewer steps.
    "decode.stopping": ["best", ("best", "full", "ahead")],
    "decode.num_hypotheses": [1, "at least 1"],  # translations to output per line
    **_sampling.KEYS,
    "decode.seed": [0, "at least 0"],  # of methods that draw at random
    # Least number of output pieces, without the end symbol.
    "decode.min_length": [0, "at least 0"],
    # An output is at most this many pieces longer than its source.
    "decode.extra_length": [50, "at least 1"],
    # Longest source in pieces, with the end symbol; longer lines are split for decoding.
    "decode.max_length": [256, "at least 16"],
    # Rows x (padded source length + extra_length), beams not counted; also the batch size of
    # validation loss and --mode=score, in target positions.
    "decode.batch_tokens": [8192, "at least 1"],
    # Lines to sort by length at a time, so that less is padding.
    "decode.chunk_lines": [4096, "at least 1"],
    # Batches decoded at the same time on one device; 0: on a CPU one per core, at most 8; on an
    # accelerator 1.
    "decode.workers": [0, "at least 0"],
    # 'json': one object per line, with 'source' (and 'prefix').
    "translate.format": ["text", ("text", "json")],
    # Input lines are SOURCE<tab>PREFIX; the translation begins with PREFIX (forced decoding).
    "translate.prefix": False,
}


def get_config() -> ConfigDict:
    config = _keys.make(KEYS)
    # A reference: the schedule follows config.model.d_model, also when that is overridden.
    config.optimizer.schedule.d_model = config.model.get_oneway_ref("d_model")
    return config
