"""Translation: every key with its default, the paper's base model on WMT 2014 English-German.

    python launch.py --config=configs/translation.py

Other configs import this one and set the keys in which they differ. configs/wmt_base.py is this
config plus the presets of tensor2tensor (the authors' code).
"""

from ml_collections import ConfigDict

from configs import _layers, _run


def get_config() -> ConfigDict:
    config = _run.get_config()
    config.task = "translation"
    config.architecture = "transformer"  # the model: a name in transformer/registry.py

    config.data = ConfigDict()
    config.data.corpus = "wmt14_translate/de-en"  # or 'parallel_text' (your files), or 'builtin'
    config.data.source_language = "en"
    config.data.target_language = "de"
    config.data.directory = ""  # folder of parallel_text's files
    config.data.data_dir = "~/tensorflow_datasets"  # WMT, and token ids
    # Split names of the corpus; with parallel_text STEM of STEM.de and STEM.en, or FILE,FILE.
    config.data.train = "train"
    config.data.validation = "validation"  # newstest2013
    config.data.test = "test"  # newstest2014; "": none, the final score is of validation
    # Longest side of a training pair, in pieces with the end symbol; longer pairs are dropped.
    config.data.max_length = 128
    config.data.row_length = 128  # positions of a row, per side
    config.data.batch_tokens = 25_000  # target positions of a batch, and as many source positions
    config.data.pack = True  # several pairs share a row; False: one pair per row, by length
    config.data.fingerprint = ""  # hash of the training pairs; filled in by the run

    config.vocabulary = ConfigDict()  # SentencePiece
    config.vocabulary.shared = True  # one vocabulary for both languages; False: one each
    config.vocabulary.kind = "bpe"  # or 'unigram'; 'table': an imported one
    config.vocabulary.size = 37_000
    config.vocabulary.character_coverage = 0.9995  # rarer characters fall back to bytes
    # Unicode's normalisation of all texts: macOS spells 한 as ᄒ, ᅡ, ᆫ. "": none, as files are.
    config.vocabulary.normalisation = "nfc"
    config.vocabulary.max_sentences = 4_000_000  # sentences to learn from; 0: all
    # Instead of learning one: WORKDIR/vocabulary of another run, or a SentencePiece .model file, or
    # SOURCE,TARGET.
    config.vocabulary.model = ""
    config.vocabulary.fingerprint = ""  # hash of the pieces; filled in by the run

    config.model = _layers.get_config()
    config.model.num_decoder_layers = 0  # 0: as many as the encoder's
    config.model.decoder_mixer = ""  # '': the encoder's, model.mixer
    config.model.max_positions = 0  # rows of the table of learned positions
    # Which embeddings are one matrix: 'all' (source, target, output), 'target' (target, output),
    # or 'none'.
    config.model.tied_embeddings = "all"
    config.model.output_bias = False  # a bias of each piece's logit, as Marian has

    # A reference: the schedule follows config.model.d_model, also when that is overridden.
    config.optimizer.schedule.d_model = config.model.get_ref("d_model")

    config.loss = ConfigDict()
    config.loss.label_smoothing = 0.1
    config.loss.smoothed_over = "all_classes"  # or 'wrong_classes', as tensor2tensor does
    # Blocks of positions whose logits are computed one after the other, to save memory; with 'jit'
    # on several devices each block costs an all-reduce. Fewer if they do not divide row_length
    # (their gcd). 1: all logits at once.
    config.loss.blocks = 4

    # sacreBLEU's tokeniser; 'zh' for Chinese, 'ja-mecab' for Japanese, 'ko-mecab' for Korean
    # targets; 'char': characters.
    config.evaluate.tokenize = "13a"
    # Further scores: 'rouge', of summaries, or 'rouge_characters', of Korean ones (pip install
    # rouge-score). "": none.
    config.evaluate.scores = ""
    config.evaluate.samples = 3  # translations to log after each validation

    config.decode = ConfigDict()
    config.decode.method = "beam"  # or 'sample', or 'mbr' (minimum Bayes risk over samples)
    config.decode.beam_width = 4
    # 'gnmt': ((5 + length) / 6)^alpha, the paper's; 'power': length^alpha; or 'none'.
    config.decode.length_penalty = "gnmt"
    config.decode.length_alpha = 0.6
    # The search ends when beam_width hypotheses are finished and no live beam is ahead of the best;
    # or 'full': when so many are finished, as in fairseq and CTranslate2; or 'ahead': as soon as
    # no live beam is ahead, which takes fewer steps.
    config.decode.stopping = "best"
    config.decode.num_hypotheses = 1  # translations to output per line
    config.decode.num_samples = 32  # samples that 'mbr' draws per line
    config.decode.temperature = 1.0  # of 'sample' and 'mbr'
    config.decode.top_k = 0  # sample from the k most likely pieces; 0: from all
    config.decode.top_p = 1.0  # nucleus: sample from the likeliest pieces of this total probability
    config.decode.seed = 0  # of 'sample' and 'mbr'
    config.decode.utility = "chrf"  # of 'mbr'; or 'bleu'
    config.decode.min_length = 0  # least number of output pieces, without the end symbol
    config.decode.extra_length = 50  # an output is at most this many pieces longer than its source
    # Longest source in pieces, with the end symbol; longer lines are split for decoding.
    config.decode.max_length = 256
    # Rows x (padded source length + extra_length), beams not counted; also the batch size of
    # validation loss and --mode=score, in target positions.
    config.decode.batch_tokens = 8192
    config.decode.chunk_lines = 4096  # lines to sort by length at a time, so that less is padding
    # Batches decoded at the same time on one device; 0: on a CPU one per core, at most 8; on an
    # accelerator 1.
    config.decode.workers = 0

    config.translate = ConfigDict()
    config.translate.format = "text"  # or 'json': one object per line, with 'source' (and 'prefix')
    # Input lines are SOURCE<tab>PREFIX; the translation begins with PREFIX (forced decoding).
    config.translate.prefix = False
    return config
