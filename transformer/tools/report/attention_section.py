"""The section on attention: which words a trained model attends to, in a few sentences."""

from collections.abc import Callable

import jax
import numpy as np

from transformer.tasks import attention_weights, translation
from transformer.tasks.task import load_task
from transformer.tools.pages.page import Section
from transformer.tools.report import attention_view, inside
from transformer.tools.report.attention_view import Example, Map, readable
from transformer.tools.report.inside import Inside
from transformer.workdir.workdir import read_vocabulary

SENTENCES = 4
MOST_TOKENS = 48  # of a text without a translation

ABOUT = (
    "A line is as strong as its weight: the share of its attention that a position on the left "
    "gives to one on the right; those below 0.1 are left out. Point at a word, or move to it with "
    "the Tab key, to see its lines alone, the weak ones, too. The same weights are a heat map: its "
    "rows are the words on the left, its columns those on the right. A dot before a piece says "
    "that it continues the word before; </s> is the end of a sentence, <s> its start. Attention "
    "says where information was read, not why."
)


KINDS = {
    "cross": "cross-attention",
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
}


def section(this: Inside) -> Section | None:
    """Returns the attention in a few sentences of the test set; None if the model has none.

    Images have a section of their own.
    """
    examples = EXAMPLES.get(this.run.config.task)
    if examples is None or not hasattr(this.model, "attention_weights"):
        return None
    if not this.items:
        return Section("Attention", [f"No test set is evaluated: {this.run.command('evaluate')}"])
    shown = examples(this)
    if not shown or not shown[0].maps:
        return None
    return Section("Attention", [ABOUT, attention_view.view(shown)])


def _translations(this: Inside) -> list[Example]:
    """Returns the attention while the run's own translations are predicted."""
    this = inside.sentences(this, "source", SENTENCES)
    vocabulary = read_vocabulary(this.run.workdir, this.run.config)
    translator = translation.TrainedTranslator(this.model, vocabulary, this.params, [])
    examples = []
    for item in this.items:
        arrays = attention_weights.of_pair(translator, item["source"], item["hypothesis"])
        source, target = (readable(arrays[side].tolist()) for side in ("source", "target"))
        seen = ["<s>", *target[:-1]]
        columns = {
            "cross": ("predicts", target, "source", source),
            "encoder": ("source", source, "source", source),
            "decoder": ("predicts", target, "has seen", seen),
        }
        maps = [
            Map(KINDS[kind], queries, keys, arrays[kind], left, right)
            for kind, (left, queries, right, keys) in columns.items()
            if kind in arrays
        ]
        examples.append(Example(f"{item['source']} → {item['hypothesis']}", maps))
    return examples


def _classified(this: Inside) -> list[Example]:
    """Returns the attention in texts that were classified, right and wrong."""
    config = this.run.config
    this = inside.labelled(inside.sentences(this, "text", len(this.items)), SENTENCES)
    read = load_task(config.task).reader(config, this.run.workdir)
    examples = []
    for item, number in zip(this.items, this.numbers, strict=True):
        row = read(item["text"], number)
        length = int((row["segments"] > 0).sum())
        pieces = _pieces(this, row["ids"][:length])
        [(kind, weights_LHTS)] = _weights(this, row).items()
        verdict = f"{item['label']}, predicted {item['prediction']}"
        m = _hops(pieces, weights_LHTS) if kind == "hops" else _pooled(this, pieces, weights_LHTS)
        examples.append(Example(f"{item['text']} ({verdict})", [m]))
    return examples


def _hops(pieces: list[str], weights_LHTS: np.ndarray) -> Map:
    """Returns the attention of learned queries (Lin et al. 2017)."""
    hops = [f"hop {i + 1}" for i in range(weights_LHTS.shape[2])]
    weights_LHTS = weights_LHTS[..., : len(pieces)]
    return Map("hops", hops, pieces, weights_LHTS, "hop", "text")


def _pooled(this: Inside, pieces: list[str], weights_LHTS: np.ndarray) -> Map:
    """Returns the attention within a text, and first of what is classified.

    That is the vector of the first position, or the mean over all, whose attention is the mean.
    """
    S = len(pieces)
    weights_LHTS = weights_LHTS[:, :, :S, :S]
    if getattr(this.model, "pooling", "mean") == "first":
        return Map(KINDS["encoder"], pieces, pieces, weights_LHTS, "from", "to", first=0)
    mean_LH1S = weights_LHTS.mean(axis=2, keepdims=True)
    with_mean = np.concatenate([mean_LH1S, weights_LHTS], axis=2)
    return Map(KINDS["encoder"], ["all, mean", *pieces], pieces, with_mean, "from", "to", first=0)


def _continued(this: Inside) -> list[Example]:
    """Returns the attention while each token of a text is predicted from those before it."""
    from transformer.families.language_model import streams

    this = inside.sentences(this, "text", SENTENCES)
    vocabulary = read_vocabulary(this.run.workdir, this.run.config)
    examples = []
    for item in this.items:
        most = min(MOST_TOKENS, this.run.config.data.context_length)
        ids = np.array(vocabulary.encode([item["text"]])[0][:most])
        zero = np.zeros(1, int)
        batch = streams.assemble(ids, zero, zero, (1, len(ids)))
        row = {name: x[0] for name, x in batch["inputs"].items()}
        targets, seen = _pieces(this, ids), _pieces(this, row["tokens"])
        weights = _weights(this, row)["decoder"]
        m = Map(KINDS["decoder"], targets, seen, weights, "predicts", "has seen")
        examples.append(Example(item["text"], [m]))
    return examples


def _weights(this: Inside, row: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the attention weights [L, H, T, S] of one row."""
    inputs = {name: x[None] for name, x in row.items()}
    of_kinds = attention_weights.of_batch(this.params, inputs, model=this.model)
    return {kind: np.asarray(weights[:, 0]) for kind, weights in jax.device_get(of_kinds).items()}


def _pieces(this: Inside, ids: np.ndarray) -> list[str]:
    """Returns the pieces or characters of ids, readable."""
    return readable(read_vocabulary(this.run.workdir, this.run.config).pieces(ids))


def _encoded(this: Inside) -> list[Example]:
    """Returns the attention within texts, of which no token is masked."""
    from transformer.families.texts import texts

    data = this.run.config.data
    vocabulary = read_vocabulary(this.run.workdir, this.run.config)
    examples = []
    for item in inside.sentences(this, "text", SENTENCES).items:
        ids = vocabulary.encode([item["text"]])[0][: min(MOST_TOKENS, data.max_length)]
        row = texts.one_text(ids, len(ids)) | {"masked": np.zeros(1, int)}
        pieces = _pieces(this, row["ids"])
        m = Map(KINDS["encoder"], pieces, pieces, _weights(this, row)["encoder"])
        examples.append(Example(item["text"], [m]))
    return examples


EXAMPLES: dict[str, Callable[[Inside], list[Example]]] = {
    "translation": _translations,
    "classification": _classified,
    "language_modelling": _continued,
    "masked_language": _encoded,
}
