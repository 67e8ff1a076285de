"""Translation: every key with its default, the paper's base model on WMT 2014 English-German.

    python launch.py --config=configs/translation.py

Other configs import this one and set the keys in which they differ. configs/wmt_base.py adds the
presets of tensor2tensor (the authors' code).
"""

from ml_collections import ConfigDict

from configs import _confidence, _keys, _layers, _rules, _run, _sampling, _views, _vocabulary

KEYS = {
    **_run.KEYS,
    **_layers.KEYS,
    **_vocabulary.KEYS,
    **_views.KEYS,
    "task": "translation",
    "architecture": "transformer",  # the model: a name in transformer/registry.py
    "data.corpus": "wmt14_translate/de-en",  # or 'parallel_text' (your files), or 'builtin'
    "data.source_language": "en",
    "data.target_language": "de",
    "data.directory": "",  # folder of parallel_text's files
    "data.data_dir": "~/tensorflow_datasets",  # for WMT and token ids
    # Split names of the corpus; with parallel_text STEM of STEM.de and STEM.en; FILE,FILE; a file
    # of pairs, .tsv, .jsonl or .parquet; or .toml for several corpora (docs/your-data.md).
    "data.train": "train",
    "data.validation": "validation",  # newstest2013
    "data.test": "test",  # newstest2014; "": none, the final score is validation's
    # Longest side of a training pair, in pieces with the end symbol; longer pairs are dropped.
    "data.max_length": [128, "at least 1"],
    "data.row_length": [128, "at least 1"],  # positions of a row, per side
    "data.batch_tokens": 25_000,  # target positions of a batch, and as many source positions
    "data.pack": True,  # several pairs share a row; False: one pair per row, by length
    "data.fingerprint": "",  # hash of the training pairs; filled in by the run
    "vocabulary.shared": True,  # one vocabulary for both languages; False: one each
    # Of SentencePiece, or 'table' for an imported vocabulary.
    "vocabulary.kind": ["bpe", ("bpe", "unigram", "table")],
    "model.num_decoder_layers": [0, "at least 0"],  # 0: as many as the encoder
    "model.decoder_mixer": "",  # "": the encoder's, model.mixer
    "model.max_positions": [0, "at least 0"],  # rows of the table of learned positions
    # Embeddings that share a matrix: 'all' (source, target, output), 'target' (target, output),
    # or 'none'.
    "model.tied_embeddings": ["all", ("all", "target", "none")],
    "model.output_bias": False,  # a bias of each piece's logit, as in Marian
    "loss.label_smoothing": [0.1, "at least 0 and below 1"],
    # 'wrong_classes': as tensor2tensor does.
    "loss.smoothed_over": ["all_classes", ("all_classes", "wrong_classes")],
    # Blocks of positions, to compute logits block by block and save memory. With 'jit' on several
    # devices each block costs an all-reduce. The number used is its gcd with row_length. 1: all
    # logits at once.
    "loss.blocks": [4, "at least 1"],
    # sacreBLEU's tokeniser; for the target languages Chinese 'zh', Japanese 'ja-mecab', Korean
    # 'ko-mecab'; 'char' for characters.
    "evaluate.tokenize": "13a",
    # Further scores of a result, not of validations, comma-separated. 'published': BLEU by the
    # tokeniser intl and in lower case, intervals, empty and over-long outputs. 'paper': tokenised
    # BLEU, as the paper's (pip install sacremoses). 'ter', which takes long. 'comet' (pip install
    # unbabel-comet). Of summaries: 'rouge', 'rouge_characters' (pip install rouge-score).
    "evaluate.scores": "",
    # Further references of evaluate.split: comma-separated files in data.directory.
    "evaluate.references": "",
    "evaluate.samples": [3, "at least 0"],  # translations to log after each validation
    # Or 'sample'; 'mbr', minimum Bayes risk over samples; 'diverse' beam search; 'terminology'.
    "decode.method": ["beam", "a name in registry.METHODS"],
    # Of a search, such as 'no_repeat_ngram(size=3),repetition(penalty=1.2),forbidden'.
    "decode.rules": "",
    "decode.beam_width": [4, "at least 1"],
    # 'gnmt': ((5 + length) / 6)^alpha, the paper's; 'power': length^alpha; or 'none'.
    "decode.length_penalty": ["gnmt", ("gnmt", "power", "none")],
    "decode.length_alpha": [0.6, "at least 0"],
    # 'best': the search ends when beam_width hypotheses are finished and no live beam is ahead of
    # the best. 'full': when beam_width are finished, as in fairseq and CTranslate2. 'ahead': as
    # soon as no live beam is ahead, which takes fewer steps.
    "decode.stopping": ["best", ("best", "full", "ahead")],
    "decode.num_hypotheses": [1, "at least 1"],  # translations to output per line
    **_sampling.KEYS,
    **_rules.KEYS,
    "decode.seed": [0, "at least 0"],  # of sampling methods
    # Before each source, if the model was trained on a mixture with tags, such as "<2de>".
    "decode.tag": "",
    # Minimum number of output pieces, without the end symbol.
    "decode.min_length": [0, "at least 0"],
    # An output is at most this many pieces longer than its source.
    "decode.extra_length": [50, "at least 1"],
    # Longest source in pieces, with the end symbol; longer lines are split for decoding.
    "decode.max_length": [256, "at least 16"],
    # Rows x (padded source length + extra_length), not counting beams; also the batch size of
    # validation loss and --mode=score, in target positions.
    "decode.batch_tokens": [8192, "at least 1"],
    # Lines to sort by length at a time, to save padding.
    "decode.chunk_lines": [4096, "at least 1"],
    # Batches decoded at the same time on one device; 0: one per CPU core, at most 8, or 1 on an
    # accelerator.
    "decode.workers": [0, "at least 0"],
    # 'json': one object per line, with 'source' (and 'prefix').
    "translate.format": ["text", ("text", "json")],
    # True: input lines are SOURCE<tab>PREFIX, and translations begin with PREFIX (forced decoding).
    "translate.prefix": False,
    **_confidence.KEYS,
}


def get_config() -> ConfigDict:
    config = _keys.make(KEYS)
    # A reference, so that the schedule follows an overridden config.model.d_model.
    config.optimizer.schedule.d_model = config.model.get_oneway_ref("d_model")
    return config
