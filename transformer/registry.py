"""The table of all names that a config or a command line can use, and of their code.

An entry is a string, "module:attribute", or "module" for a task; a mode's is a record with such
strings. The code is imported on use. Only code listed here is ever imported by name. Add an entry
for a model, task, corpus or mode of your own.
"""

import pkgutil
from typing import Any, NamedTuple

from transformer.errors import check_value


class Mode(NamedTuple):
    """A value of --mode: a function of (config, workdir) that launch.py calls."""

    code: str
    about: str  # one sentence for --help
    arguments: str = "--workdir=DIR"  # of --mode=NAME, for --help
    # The mode starts from a run's 'workdir', several 'workdirs', a 'config', a 'foreign' folder of
    # another program, or a file that names several 'configs'.
    start: str = "workdir"
    keys: str = ""  # "module:KEYS", the table of the mode's own keys; must not import JAX
    tasks: tuple[str, ...] = ()  # the tasks that have the mode; () for all
    folder: bool = False  # takes --mode=NAME FOLDER besides a workdir; so do 'foreign', 'configs'
    collective: bool = False  # all processes of a run call it; other modes run in one process


# {config.architecture: a subclass of nn.Module}
MODELS = {
    "transformer": "transformer.models.transformer:Transformer",
    "recurrent": "transformer.families.recurrent.recurrent:Recurrent",
    "self_attentive": "transformer.families.recurrent.self_attentive:SelfAttentive",
    "intra_attention": "transformer.families.recurrent.intra_attention:IntraAttention",
    "lstm_language_model": "transformer.families.recurrent.lstm_language_model:LstmLanguageModel",
    "language_model": "transformer.families.language_model.language_model:LanguageModel",
    "masked_language_model": "transformer.families.texts.text_encoder:MaskedLanguageModel",
    "text_classifier": "transformer.families.texts.text_encoder:TextClassifier",
    "decomposable": "transformer.families.texts.decomposable:Decomposable",
    "vision_transformer": "transformer.families.images.vision:VisionTransformer",
}

# {box of figure 1, a key of config.model: {name of a part: its code}}, see models/boxes.py
PARTS = {
    "mixer": {
        "attention": "transformer.models.attention:SelfAttention",
        "shared": "transformer.families.parts.projections:Shared",
        "grouped_query": "transformer.families.mixers.grouped_query:GroupedQuery",
        "local": "transformer.families.mixers.local:Local",
        "convolution": "transformer.families.mixers.convolution:Convolution",
        "light_convolution": "transformer.families.mixers.light_convolution:LightConvolution",
        "dynamic_convolution": "transformer.families.mixers.light_convolution:DynamicConvolution",
        "average": "transformer.families.mixers.average:Average",
        "lstm": "transformer.families.mixers.recurrence:Lstm",
        "gated_linear": "transformer.families.mixers.gated_linear:GatedLinear",
        "state_space": "transformer.families.mixers.state_space:StateSpace",
    },
    "score": {
        "scaled_dot": "transformer.models.attention:ScaledDot",
        "dot": "transformer.families.parts.scores:Dot",
        "general": "transformer.families.parts.scores:General",
        "additive": "transformer.families.parts.scores:Additive",
        "cosine": "transformer.families.parts.scores:Cosine",
        "normalised": "transformer.families.parts.scores:Normalised",
    },
    "positions": {
        "interleaved": "transformer.models.positions:Interleaved",
        "concatenated": "transformer.models.positions:Concatenated",
        "learned": "transformer.models.positions:Learned",
        "halves": "transformer.families.parts.other_positions:Halves",
        "appended": "transformer.families.parts.other_positions:Appended",
        "none": "transformer.models.positions:Positions",
        "rotary": "transformer.families.parts.rotary:Rotary",
        "shaw": "transformer.families.parts.distances:Shaw",
        "alibi": "transformer.families.parts.biases:Alibi",
        "t5": "transformer.families.parts.biases:T5",
    },
    "feed_forward": {
        "relu": "transformer.models.layers:FeedForward",
        "gelu": "transformer.families.parts.networks:Gelu",
        "gelu_tanh": "transformer.families.parts.networks:GeluTanh",
        "silu": "transformer.families.parts.networks:Silu",
        "sigmoid": "transformer.families.parts.networks:Sigmoid",
        "gated": "transformer.families.parts.networks:Gated",
        "experts": "transformer.families.parts.experts:Experts",
        "none": "transformer.families.parts.networks:no_network",
    },
    "norm": {
        "layer": "transformer.models.layers:layer_norm",
        "rms": "transformer.families.parts.norms:rms",
        "none": "transformer.families.parts.norms:no_norm",
    },
    "residual": {
        "post": "transformer.models.layers:PostNorm",
        "pre": "transformer.models.layers:PreNorm",
        "rezero": "transformer.families.parts.residuals:ReZero",
        "none": "transformer.families.parts.residuals:NoResidual",
    },
}

# {config.kernels: implementations of some functions, see transformer/models/kernels.py}
KERNELS = {
    "plain": "transformer.models.kernels:PLAIN",
    "tuned": "transformer.families.kernels.tuned:TUNED",
    "cudnn": "transformer.families.kernels.cudnn:CUDNN",
}

# {config.task: a module, see transformer/tasks/__init__.py}; its keys are in configs/TASK.py
TASKS = {
    "translation": "transformer.tasks.translation",
    "language_modelling": "transformer.families.language_model.language_modelling",
    "classification": "transformer.families.texts.classification",
    "masked_language": "transformer.families.texts.masked_language",
    "image_classification": "transformer.families.images.image_classification",
    "memory": "transformer.families.memory.memory_task",
    "parsing": "transformer.families.parsing.parsing_task",
}

# {config.decode.method: a function (values of config.decode, vocabulary of the target, or None for
# a check of the config) -> a decoding.methods.Method}
METHODS = {
    "beam": "transformer.decoding.beam_search:method",
    "sample": "transformer.families.sampling.sampling:method",
    "mbr": "transformer.families.sampling.mbr:method",
    "diverse": "transformer.families.rules.diverse:method",
    "terminology": "transformer.families.rules.terminology:method",
}

# {a name in config.decode.rules: the constructor of a rule, see decoding/methods.py}
RULES = {
    "no_repeat_ngram": "transformer.families.rules.repeats:NoRepeatNgram",
    "repetition": "transformer.families.rules.repeats:Repetition",
    "forbidden": "transformer.families.rules.forbidden:forbidden",
}

# {a key of config.decode: a function (config, workdir, SavedModel) -> SavedModel, if it is not ""}
FUSION = {
    "language_model": "transformer.families.rules.fusion:fused",
}

# {a key of config.translate: a function (config, workdir, SavedModel, values of config.decode) -> a
# function of requests and each one's hypotheses, which fills in further fields of a Hypothesis}
ESTIMATORS = {
    "confidence": "transformer.tools.confidence.confidence:estimator",
}

# {the end of a name in config.data.train, ...: a function (folder, name, languages, key) -> a
# data.corpora.Corpus}, of files of parallel text other than two aligned ones
PAIR_FILES = {
    ".toml": "transformer.families.corpora.mixtures:load",
    ".tsv": "transformer.families.corpora.pair_files:load",
    ".jsonl": "transformer.families.corpora.pair_files:load",
    ".parquet": "transformer.families.corpora.pair_files:load",
}

# {a name in config.data.views: the constructor of a families.views.views.View}
VIEWS = {
    "case": "transformer.families.views.views:case",
    "typos": "transformer.families.views.views:typos",
    "subwords": "transformer.families.views.subwords:subwords",
}

# 'corpus': the views of training pairs, (config, Corpus) -> Corpus
# 'batches': their batches, (config, Tokens, a function of both -> Batches) -> Batches
VIEWED = {
    "corpus": "transformer.families.views.viewed:corpus",
    "batches": "transformer.families.views.viewed:batches",
}

# {a name in config.evaluate.scores: a function (config) -> a function that scores translations,
# (sources, hypotheses, references, vocabulary) -> {name: number}}; `references` are those of
# sacreBLEU, a list of lines for each reference
SCORES = {
    "rouge": "transformer.families.summaries.rouge:word_rouge",
    "rouge_characters": "transformer.families.summaries.rouge:character_rouge",
    "published": "transformer.families.metrics.published:published",
    "paper": "transformer.families.metrics.paper:paper",
    "ter": "transformer.families.metrics.published:ter",
    "comet": "transformer.families.metrics.neural:comet",
}

# {config.vocabulary.kind: a tasks.vocabularies.Kind}, besides SentencePiece's 'bpe' and 'unigram'
VOCABULARIES = {
    "characters": "transformer.families.language_model.characters:KIND",
    "table": "transformer.tools.convert.piece_table:KIND",
}

# {config.data.corpus: a function () -> ((language, language), {split: [(text, text), ...]})} for
# generated sentence pairs; the function is deterministic
CORPORA = {
    "builtin": "transformer.tools.quickstart.grammar:corpus",
}

# 'config': explains a config for --help, (arguments of the command line) -> text
# 'key': corrects a mistyped key, (name, {key: value} of the config) -> '; did you mean X?'
HELP = {
    "key": "transformer.tools.help.key_names:hint",
    "config": "transformer.tools.help.config_help:text",
}

# {a name in config.train.trackers: a function (workdir, config) -> a context manager}; it yields a
# function that is called with each new line of metrics.jsonl
TRACKERS = {
    "wandb": "transformer.tools.trackers.services:wandb",
    "mlflow": "transformer.tools.trackers.services:mlflow",
}

# {NAME: the code of transformer.NAME, for programs that import the package}
LIBRARY = {
    "load": "transformer.tools.api.loading:load",
    "config": "transformer.tools.api.loading:config",
    "train": "transformer.tools.api.loading:train",
}

MODES = {
    "train": Mode(
        "transformer.modes.train:train",
        "Trains, or resumes if DIR has a checkpoint, then scores the test set. The default.",
        arguments="--config=FILE [--workdir=DIR], or --workdir=DIR to resume by its own config",
        start="config",
        collective=True,
    ),
    "prepare": Mode(
        "transformer.modes.prepare:prepare",
        "Builds corpus, vocabulary and token ids, without training.",
        arguments="--config=FILE",
        start="config",
        collective=True,
    ),
    "evaluate": Mode(
        "transformer.modes.evaluate:evaluate",
        "Scores a run: one JSON line (a table on a terminal), and in DIR/evaluations.jsonl.",
        arguments="--workdir=DIR [--config.evaluate.split=validation]",
        collective=True,
    ),
    "translate": Mode(
        "transformer.modes.translate:translate",
        "Translates each line.",
        arguments="--workdir=DIR < source.txt > target.txt",
        tasks=("translation",),
    ),
    "score": Mode(
        "transformer.families.scoring.score:score",
        "Scores each SOURCE<tab>TARGET by forced decoding.",
        arguments="--workdir=DIR < pairs.tsv",
        tasks=("translation",),
    ),
    "rescore": Mode(
        "transformer.families.scoring.rescore:rescore",
        "Ranks the translations of each line anew, by one more model.",
        arguments="--workdir=DIR [--config.rescore.by=source] < hypotheses.jsonl",
        keys="transformer.families.scoring.rescore_keys:KEYS",
        tasks=("translation",),
    ),
    "align": Mode(
        "transformer.families.scoring.align:align",
        "Aligns the words of each SOURCE<tab>TARGET by attention weights.",
        arguments="--workdir=DIR < pairs.tsv",
        keys="transformer.families.scoring.align_keys:KEYS",
        tasks=("translation",),
    ),
    "calibrate": Mode(
        "transformer.tools.confidence.calibrate:calibrate",
        "Learns from the validation text how sure a translation is; for translate.confidence.",
        keys="transformer.tools.confidence.calibrate_keys:KEYS",
        tasks=("translation",),
    ),
    "verify": Mode(
        "transformer.tools.verify.verify:verify",
        "Compares the files of all checkpoints with their checksums.",
    ),
    "classify": Mode(
        "transformer.families.labels.classify:classify",
        "Writes LABEL<tab>PROBABILITY for each line: a text, A<tab>B or an image's path.",
        arguments="--workdir=DIR < texts.txt",
        tasks=("classification", "image_classification"),
    ),
    "generate": Mode(
        "transformer.families.language_model.generate:generate",
        "Continues each line by a language model.",
        arguments="--workdir=DIR < prompts.txt",
        tasks=("language_modelling",),
    ),
    "parse": Mode(
        "transformer.families.parsing.parse:parse",
        "Writes the tree of each sentence, whose words are separated by spaces.",
        arguments="--workdir=DIR < sentences.txt",
        tasks=("parsing",),
    ),
    "report": Mode(
        "transformer.tools.report.report:report",
        "Writes DIR/report.html, one file that shows a run: curves, scores, sentences, ...",
    ),
    "serve": Mode(
        "transformer.tools.serve.serve:serve",
        "Translates for other programs, over HTTP, and on a page at http://127.0.0.1:8000.",
        keys="transformer.tools.serve.serve_keys:KEYS",
        tasks=("translation",),
    ),
    "compare": Mode(
        "transformer.tools.compare.compare:compare",
        "Compares evaluated runs with the first, with p-values; writes ./compare.html.",
        arguments="DIR DIR ... [--config.compare.set=SET]",
        start="workdirs",
        keys="transformer.tools.compare.compare_keys:KEYS",
    ),
    "sweep": Mode(
        "transformer.tools.sweep.sweep:sweep",
        "Trains all rows and seeds of FILE (docs/comparing.md), or goes on; ends with one table.",
        arguments="FILE [--workdir=DIR] [--config.sweep.processes=2]",
        start="configs",
        keys="transformer.tools.sweep.sweep_keys:KEYS",
    ),
    "import": Mode(
        "transformer.tools.convert.import_model:import_model",
        "Makes a workdir of a model of Hugging Face's Marian, or of an exported one.",
        arguments="FOLDER --workdir=DIR",
        start="foreign",
    ),
    "export": Mode(
        "transformer.tools.convert.export:export",
        "Writes a model for another program: huggingface, ctranslate2 or safetensors.",
        arguments="FOLDER --workdir=DIR [--config.export.format=ctranslate2]",
        keys="transformer.tools.convert.export_keys:KEYS",
        folder=True,
    ),
    "plan": Mode(
        "transformer.tools.plan.plan:plan",
        "Estimates memory, communication and time of a run, without corpus and devices.",
        arguments='--config=FILE --config.plan.num_devices=64 --config.plan.device="TPU v5e"',
        start="config",
        keys="transformer.tools.plan.plan_keys:KEYS",
    ),
    "profile": Mode(
        "transformer.tools.profile.profile:profile",
        "Traces a few training steps, for TensorBoard or Perfetto, in DIR/profile.",
        arguments="--config=FILE [--config.profile.steps=3]",
        start="config",
        keys="transformer.tools.profile.profile_keys:KEYS",
        collective=True,
    ),
    "audit": Mode(
        "transformer.tools.audit.audit:audit",
        "Looks for faults in sentence pairs, shows them in ./audit.html, drops them.",
        arguments="--config=FILE --config.data.directory=FOLDER",
        start="config",
        keys="transformer.tools.audit.audit_keys:KEYS",
        tasks=("translation",),
    ),
}


def find(table: dict[str, str], key: str, name: str) -> Any:
    """Returns the code of a name in a table; UserError if config.KEY has another name."""
    check_value(key, name, tuple(table))
    return load(table[name])


def load(code: str) -> Any:
    """Imports and returns the code of an entry: a module, or an attribute of a module."""
    # With its colon, an error inside the module is raised as it is.
    return pkgutil.resolve_name(code if ":" in code else f"{code}:")
