"""Language modelling: every key with its default, a small GPT on a user's own text.

    python launch.py --config=configs/language_modelling.py --config.data.directory=FOLDER

FOLDER holds train.txt and validation.txt. Other configs import this one and set the keys in which
they differ; configs/own_text.py is the one to begin with.
"""

from ml_collections import ConfigDict

from configs import _layers, _run


def get_config() -> ConfigDict:
    config = _run.get_config()
    config.task = "language_modelling"
    config.architecture = "language_model"  # the model: a name in transformer/registry.py

    config.data = ConfigDict()
    config.data.directory = ""  # folder of the text files
    config.data.data_dir = "~/tensorflow_datasets"  # token ids
    # Files of data.directory, plain, .gz or .xz, several with commas between. A part of a file is
    # 'all.txt[:90%]' (of its lines) or 'all.txt[90%: of characters]'.
    config.data.train = "train.txt"
    config.data.validation = "validation.txt"
    config.data.test = ""  # "": none, the final score is of validation
    config.data.context_length = 256  # tokens of a row, which the model sees at once
    config.data.batch_tokens = 8192  # tokens of a batch
    config.data.fingerprint = ""  # hash of the training text; filled in by the run

    config.vocabulary = ConfigDict()
    config.vocabulary.kind = "bpe"  # SentencePiece; or 'unigram', or 'characters': all of the text
    config.vocabulary.size = 8000  # pieces; of 'characters' only --mode=plan reads it
    config.vocabulary.character_coverage = 1.0  # rarer characters fall back to bytes
    # Unicode's normalisation of all texts: macOS spells 한 as ᄒ, ᅡ, ᆫ. "": none, as files are.
    config.vocabulary.normalisation = "nfc"
    config.vocabulary.max_sentences = 1_000_000  # lines to learn pieces from; 0: all
    # Instead of learning one: WORKDIR/vocabulary of another run, or a SentencePiece .model file.
    config.vocabulary.model = ""
    config.vocabulary.fingerprint = ""  # hash of the vocabulary; filled in by the run

    config.model = _layers.get_config()  # GPT-2's, but for its width
    config.model.d_model = 384
    config.model.d_ff = 1536
    config.model.num_heads = 6
    config.model.norm = "pre"
    config.model.final_norm = True
    config.model.norm_epsilon = 1e-5
    config.model.positions = "learned"
    config.model.max_positions = 256  # rows of the table of learned positions
    config.model.tied_embeddings = True  # embedding and output are one matrix
    config.model.activation = "gelu"

    config.loss = ConfigDict()
    config.loss.label_smoothing = 0.0
    config.loss.smoothed_over = "all_classes"  # or 'wrong_classes', as tensor2tensor does
    # Blocks of positions whose logits are computed one after the other, to save memory. 1: all.
    config.loss.blocks = 1

    config.optimizer.name = "adamw"  # decays all params; nanoGPT's only those of 2 dimensions
    config.optimizer.arguments = {"b1": 0.9, "b2": 0.99, "eps": 1e-8, "weight_decay": 0.1}
    config.optimizer.clip_norm = 1.0
    config.optimizer.schedule = {
        "name": "warmup_cosine_decay_schedule",
        "init_value": 0.0,
        "peak_value": 1e-3,
        "end_value": 1e-4,
        "warmup_steps": 100,
        "decay_steps": config.train.get_ref("num_steps"),
    }

    config.train.num_steps = 5000
    config.train.save_every = 500
    config.evaluate.every = 500
    config.evaluate.weights = "best"
    config.evaluate.batch_tokens = 8192  # tokens of a batch of validation

    # Texts to log after each validation: config.generate.max_tokens tokens without a prompt.
    config.evaluate.samples = 2

    config.generate = ConfigDict()  # of --mode=generate, and of these texts
    config.generate.max_tokens = 200  # tokens of a continuation
    config.generate.lines = 0  # end after this many line breaks; 0: only after max_tokens
    config.generate.num_samples = 1  # continuations of each prompt
    config.generate.temperature = 1.0
    config.generate.top_k = 0  # sample from the k likeliest tokens; 0: from all. 1: greedy
    config.generate.top_p = 1.0  # nucleus: the likeliest tokens of this total probability
    config.generate.seed = 0
    config.generate.format = "text"  # or 'json': one object per line, with 'prompt'
    config.generate.stream = False  # write text as it comes, as on a terminal; not with 'json'
    config.generate.batch_size = 32  # continuations at the same time
    return config
