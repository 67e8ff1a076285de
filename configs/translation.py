"""Translation: all keys, with the values of the paper's base model on WMT 2014 English-German.

    python launch.py --config=configs/translation.py

Other configs import this one and change what differs: configs/wmt_base.py, its presets only.
"""

from ml_collections import ConfigDict

from configs import _run


def get_config() -> ConfigDict:
    config = _run.get_config()
    config.task = "translation"
    config.architecture = "transformer"  # a name in transformer/models/__init__.py

    config.data = ConfigDict()
    config.data.corpus = "wmt14_translate/de-en"
    config.data.source_language = "en"
    config.data.target_language = "de"
    config.data.directory = ""  # of parallel_text's files
    config.data.data_dir = "~/tensorflow_datasets"  # where data sets and ids are kept
    config.data.train = "train"
    config.data.validation = "validation"  # newstest2013
    config.data.test = "test"  # newstest2014; "": none, the final score is of validation
    config.data.max_length = (
        128  # pieces a side, end symbol included; longer pairs are not trained on
    )
    config.data.row_length = 128  # positions a row and side; several pairs are packed into it
    config.data.batch_tokens = 25_000  # target positions a batch, and as many of the source
    config.data.pack = True  # or False: one pair a row
    config.data.fingerprint = ""  # of the training pairs; filled in by the run

    config.vocabulary = ConfigDict()
    config.vocabulary.shared = True
    config.vocabulary.kind = "bpe"  # or 'unigram'
    config.vocabulary.size = 37_000
    config.vocabulary.character_coverage = 0.9995  # rarer characters are spelt in bytes
    config.vocabulary.max_sentences = 4_000_000  # to learn it from; 0: all
    config.vocabulary.model = ""  # a ready SentencePiece .model (or SOURCE,TARGET) instead
    config.vocabulary.fingerprint = ""  # of its pieces; filled in by the run

    config.model = ConfigDict()
    config.model.d_model = 512
    config.model.d_ff = 2048
    config.model.num_heads = 8
    config.model.num_layers = 6
    config.model.key_size = 0  # d_model / num_heads
    config.model.value_size = 0
    config.model.norm = "post"  # or 'pre'
    config.model.final_norm = False
    config.model.norm_epsilon = 1e-6
    config.model.positions = "interleaved"  # sinusoids; or 'concatenated' ones, or 'learned'
    config.model.max_positions = 0  # of learned ones
    config.model.tied_embeddings = "all"  # or 'target', or 'none'
    config.model.activation = "relu"  # or 'gelu'
    config.model.attention_bias = False
    config.model.dropout_rate = 0.1
    config.model.attention_dropout_rate = 0.0
    config.model.activation_dropout_rate = 0.0
    config.model.remat = False  # True: less memory in training, for time (docs/performance.md)
    config.model.dtype = "float32"  # or 'bfloat16' (see README); parameters are float32 always

    config.optimizer.schedule.d_model = config.model.get_ref("d_model")

    config.loss = ConfigDict()
    config.loss.label_smoothing = 0.1
    config.loss.smoothed_over = "all_classes"  # or 'wrong_classes'
    # Parts that a batch's logits are made in, as far as they divide a row; with 'jit' on several
    # devices each of them costs a sum over the devices.
    config.loss.blocks = 4

    config.evaluate.tokenize = (
        "13a"  # sacreBLEU's: 'zh', 'ja-mecab', 'ko-mecab', 'char' for those targets
    )
    config.evaluate.samples = 3  # translations shown

    config.decode = ConfigDict()
    config.decode.method = "beam"  # or 'sample', or 'mbr': the sample most like the others
    config.decode.beam_width = 4
    config.decode.length_penalty = "gnmt"  # the paper's; or 'power' (n^alpha), or 'none'
    config.decode.length_alpha = 0.6
    config.decode.num_hypotheses = 1  # translations of a line that are given out
    config.decode.num_samples = 32  # that 'mbr' draws
    config.decode.temperature = 1.0  # of samples: from P^(1 / temperature)
    config.decode.top_k = 0  # sample among so many of the likeliest pieces only; 0: all
    config.decode.top_p = 1.0  # ... and among the likeliest with so much of the probability
    config.decode.seed = 0
    config.decode.utility = "chrf"  # of 'mbr'; or 'bleu'
    config.decode.min_length = 0  # pieces, without the end symbol
    config.decode.extra_length = 50  # an output has at most as many pieces as its source and these
    config.decode.max_length = 256  # source pieces; a longer line is translated in parts
    config.decode.batch_tokens = 8192  # target positions a batch
    config.decode.chunk_lines = 4096  # lines sorted by length together
    config.decode.workers = 0  # batches at a time; 0: one for each core of a CPU, up to 8

    config.translate = ConfigDict()
    config.translate.format = "text"  # or 'json': an object a line, with 'source' (and 'prefix')
    config.translate.prefix = (
        False  # whether a line is SOURCE<tab>PREFIX, what the output begins with
    )

    config.attention = ConfigDict()
    config.attention.layer = 0  # whose weights align words, from 1; 0: the mean of all
    config.attention.head = 0  # likewise
    config.attention.pairs = 100  # whose weights are written to attention.npz
    return config
