"""Classification of texts, or of pairs: labelled lines -> batches, loss, accuracy and F1."""

import functools
import logging
from collections.abc import Callable
from pathlib import Path

import flax.linen as nn
import numpy as np
from ml_collections import ConfigDict

from transformer.data import packing
from transformer.data.batches import Batches, example_of
from transformer.data.tokens import NO_SIDE
from transformer.errors import UserError, check_value, quantity
from transformer.families.labels import class_names, classifiers
from transformer.families.texts import labelled_text, texts
from transformer.families.texts.labelled_text import LabelledText
from transformer.families.texts.text_encoder import TextClassifier
from transformer.models import boxes
from transformer.models.positions import overrides
from transformer.tasks import losses, saved_model, splits, vocabularies
from transformer.tasks.evaluation import Evaluation
from transformer.tasks.task import Task, abstract_params, build_model, check_packing, make_task

FREE = ("data.num_classes", "classify.")
UNITS = {1: "text", 2: "pair"}  # the classified unit, by config.data.num_texts
SCORE = {"best_by": "accuracy", "best_is": "highest", "unit": "text"}
model = build_model

LABEL_WARNING = (
    "line 1 begins with a label and a tab, which are read as text: --mode=classify expects texts "
    "alone, as from cut -f 2-"
)


def check(config: ConfigDict) -> None:
    """Raises UserError for invalid values, before anything is written or compiled."""
    check_texts(config, model(config, sizes(config, None)), example(config, 1))


def check_texts(config: ConfigDict, checked: nn.Module, batch: dict) -> None:
    """Raises UserError if rows and model of a task of texts do not fit together.

    `batch` is the task's `example`.
    """
    data = config.data
    # Each text has at least a piece and the start symbol.
    check_value("data.max_length", data.max_length, f"at least {2 * data.num_texts}")
    check_value("data.batch_tokens", data.batch_tokens, f"at least {data.max_length}")
    if (needed := getattr(checked, "num_texts", data.num_texts)) != data.num_texts:
        raise UserError(
            f"config.architecture={config.architecture!r} reads LABEL<tab>A<tab>B: set "
            f"config.data.num_texts={needed}, found {data.num_texts}"
        )
    if data.num_texts > 1 and isinstance(checked, TextClassifier):
        _check_halves(checked, data.max_length)
    what = f"config.data.max_length={data.max_length}"
    saved_model.check_all_positions(config, checked, data.max_length, what)
    check_packing(checked, data.get("pack", False))
    # The model checks its values when it is traced, without arrays.
    abstract_params(checked, batch)


def _check_halves(model: TextClassifier, max_length: int) -> None:
    """Raises UserError if positions do not distinguish the second text from the first."""
    [positions] = boxes.parse("positions", model.options.positions)
    if not overrides(positions.code, "__call__"):
        raise UserError(
            "config.data.num_texts=2 needs positions of the input, such as 'learned', which tell "
            f"the texts apart, found config.model.positions={model.options.positions!r}"
        )
    # Each text takes half of the positions.
    check_value("model.max_positions", model.max_positions, f"at least {max_length}")


def load(config: ConfigDict, split: str) -> LabelledText:
    """Returns a split: the labelled lines of the files that config.data.SPLIT names."""
    name, key = splits.name_and_key(config, split)
    data = config.data
    return labelled_text.load(name, data.num_texts, directory=data.directory, key=key)


def prepare(config: ConfigDict, workdir: Path, saved_config: ConfigDict | None) -> ConfigDict:
    """Builds missing corpora, labels, vocabulary and token ids; returns the config, filled in."""
    corpora = splits.load_all(config, load)
    train = corpora["train"]
    splits.fill_in_fingerprint(config, workdir, saved_config, train)
    # Check labels first, because learning a vocabulary can take minutes.
    names = sorted(set(train.labels))  # so that ids do not depend on the order of the texts
    names = class_names.prepare(config, workdir, saved_config, names, train.files)
    # Called for its error, which names the file and line of a label that training lacks.
    for corpus in corpora.values():
        class_names.class_ids(corpus.labels, names, place=corpus.place)
    vocab = vocabularies.prepare(config, workdir, saved_config, train)
    for split, corpus in corpora.items():
        splits.tokens(config, corpus, vocab, f"tokenise {split}")
    return config


def identity(config: ConfigDict) -> dict[str, str]:
    """Returns the fingerprints of vocabulary and labels; "" before `prepare`."""
    options = config.vocabulary
    return {"vocabulary": options.fingerprint, "labels": options.labels_fingerprint}


def sizes(config: ConfigDict, workdir: Path | None) -> dict[str, int]:
    """Returns {'vocab_size', 'num_classes'} of the workdir; if `workdir` is None, of the config."""
    sizes = vocabularies.text_sizes(config, workdir)
    return {**sizes, "num_classes": class_names.number(config, workdir)}


def example(config: ConfigDict, rows: int) -> dict:
    """Returns a batch of jax.ShapeDtypeStruct, of the longest rows; `rows` 0 for a full batch."""
    data = config.data
    assemble = functools.partial(texts.labelled, NO_SIDE, np.zeros(1, np.int32))
    return example_of(assemble, rows or data.batch_tokens // data.max_length, data.max_length)


def loss(config: ConfigDict, model: nn.Module) -> Callable:
    """Returns the training loss, (params, batch, *, rng) -> {name: sum over the texts}."""
    items = functools.partial(classifiers.training_loss, model=model, **config.loss)
    return functools.partial(losses.with_filled, items)


def evaluator(config: ConfigDict, workdir: Path, model: nn.Module, split: str) -> Evaluation:
    """Returns the evaluator of a split.

    Its outputs have the columns 'text', or 'pair' for two texts, and 'label'.
    """
    corpus, unit = load(config, split), UNITS[config.data.num_texts]
    names = class_names.read(workdir, config.vocabulary.labels_fingerprint)
    ids = class_names.class_ids(corpus.labels, names, place=corpus.place)
    return classifiers.evaluation(
        model,
        batches_of(config, workdir, corpus, ids, None),
        split=split,
        files=corpus.files,
        dataset={unit: corpus.lines, "label": corpus.labels},
        labels=names,
        unit=unit,
        label_smoothing=config.loss.label_smoothing,
        remedy="lower config.data.batch_tokens",
    )


def build(config: ConfigDict, workdir: Path) -> Task:
    """Builds the `Task` of a prepared workdir."""
    names = class_names.read(workdir, config.vocabulary.labels_fingerprint)
    train = load(config, "train")
    ids = class_names.class_ids(train.labels, names, place=train.place)
    batches = batches_of(config, workdir, train, ids, config.train.seed)
    about = (
        f"{quantity(len(ids), f'training {UNITS[config.data.num_texts]}')} of {len(names)} classes "
        f"({', '.join(names[:10])}{', ...' if len(names) > 10 else ''}) in batches of "
        f"{config.data.batch_tokens:,} positions"
    )
    return make_task(config, workdir, sizes(config, workdir), batches, about)


def batches_of(
    config: ConfigDict, folder: Path, corpus: LabelledText, targets: np.ndarray, seed: int | None
) -> Batches:
    """Returns a split's texts, or pairs of texts, one per row, each with a target.

    Texts are truncated to `data.max_length`, and to half of it in a pair.
    """
    data, vocab = config.data, vocabularies.read(folder, config)
    tokens = splits.tokens(config, corpus, vocab, "tokenise")
    side = texts.shorten(tokens.sides["text"], data.max_length // data.num_texts)
    # A row concatenates its texts: in pairs, lengths 3 4 2 5 give rows of 7 and 7.
    lengths = side.lengths.reshape(-1, data.num_texts).sum(axis=1)
    # Few static lengths, because a program is compiled for each.
    rows = packing.one_per_row((lengths,), np.arange(len(lengths)), data.max_length)
    return Batches(rows, data.batch_tokens, seed, functools.partial(texts.labelled, side, targets))


def reader(config: ConfigDict, workdir: Path) -> Callable:
    """Returns read(line, number) -> the inputs for a text or A<tab>B, truncated as in `batches_of`.

    Warns if the first line has a label, as in a training file. UserError for a pair with too few,
    too many or blank texts.
    """
    vocab, data = vocabularies.read(workdir, config), config.data
    names = class_names.read(workdir, config.vocabulary.labels_fingerprint)

    def read(line: str, number: int) -> dict[str, np.ndarray]:
        # Only the first line, because a later line may begin with a label by chance.
        if number == 1 and line.startswith(tuple(f"{name}\t" for name in names)):
            logging.warning(LABEL_WARNING)
        columns = labelled_text.columns(line, data.num_texts)
        if not columns:
            expected = labelled_text.FORMS[data.num_texts]
            raise UserError(f"line {number}: expected {expected}, found {line[:60]!r}")
        return texts.encode_row(columns, vocab, data.max_length)

    return read
