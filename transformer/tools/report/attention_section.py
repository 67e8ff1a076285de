"""The section on attention: which words a trained model attends to, in a few sentences."""

import jax
import numpy as np

from transformer.tasks import attention_weights, translation, vocabularies
from transformer.tasks.task import load_task
from transformer.tools.pages.page import Section
from transformer.tools.report import attention_view, inside
from transformer.tools.report.attention_view import Example, Map, readable
from transformer.tools.report.inside import Inside

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
    """Returns the attention in a few texts of the test set; None if the model has none.

    Images have a section of their own.
    """
    if not hasattr(this.model, "attention_weights"):
        return None
    if not this.items:
        return Section("Attention", [f"No test set is evaluated: {this.run.command('evaluate')}"])
    shown = []
    if "decode" in this.run.config:
        shown = _translations(this)
    elif this.columns.get("input") != "image" and hasattr(
        load_task(this.run.config.task), "reader"
    ):
        shown = _texts(this)
    if not shown or not shown[0].maps:
        return None
    return Section("Attention", [ABOUT, attention_view.view(shown)])


def _translations(this: Inside) -> list[Example]:
    """Returns the attention while the run's own translations are predicted."""
    this = inside.sentences(this, SENTENCES)
    vocabulary = vocabularies.read(this.run.workdir, this.run.config)
    translator = translation.TrainedTranslator(this.model, vocabulary, this.params, [])
    examples = []
    for item in this.items:
        arrays = attention_weights.of_pair(translator, item["input"], item["output"])
        source, target = (readable(arrays[side].tolist()) for side in ("source", "target"))
        # The decoder's input is shifted right: it predicts target[t] from <s> and target[:t].
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
        examples.append(Example(f"{item['input']} → {item['output']}", maps))
    return examples


def _texts(this: Inside) -> list[Example]:
    """Returns the attention in texts, as the task's `reader` gives them to the model.

    Where texts are classified, they are some that the model has right and some that it has wrong.
    """
    config = this.run.config
    is_labelled = {"reference", "output"} <= this.items[0].keys()
    this = inside.sentences(this, len(this.items) if is_labelled else SENTENCES)
    this = inside.labelled(this, SENTENCES) if is_labelled else this
    read = load_task(config.task).reader(config, this.run.workdir)
    examples = []
    for item, number in zip(this.items, this.numbers, strict=True):
        title = item["input"]
        if is_labelled:
            title += f" ({item['reference']}, predicted {item['output']})"
        m = _within(this, item["input"], read(item["input"], number), is_labelled)
        examples.append(Example(title, [m]))
    return examples


def _within(this: Inside, text: str, row: dict[str, np.ndarray], is_labelled: bool) -> Map:
    """Returns the attention in a text; `row` are the model's inputs for this text."""
    vocabulary = vocabularies.read(this.run.workdir, this.run.config)
    [(kind, weights_LHTS)] = _weights(this, row).items()
    if kind == "decoder":  # each token is predicted from those before it
        # Token t of the row is the one before target t: query t reads tokens 0 to t and predicts
        # piece t of the text.
        T = min(MOST_TOKENS, len(row["tokens"]))
        targets = readable(vocabulary.pieces(vocabulary.encode([text])[0][:T]))
        seen = readable(vocabulary.pieces(row["tokens"][:T]))
        return Map(KINDS[kind], targets, seen, weights_LHTS[:, :, :T, :T], "predicts", "has seen")
    # Mask: padding has segment 0.
    pieces = readable(vocabulary.pieces(row["ids"][row["segments"] > 0]))
    if kind == "hops":
        return _hops(pieces, weights_LHTS)
    pooling = getattr(this.model, "pooling", "mean") if is_labelled else ""
    return _encoded(pieces, weights_LHTS, pooling)


def _hops(pieces: list[str], weights_LHTS: np.ndarray) -> Map:
    """Returns the attention of learned queries (Lin et al. 2017)."""
    hops = [f"hop {i + 1}" for i in range(weights_LHTS.shape[2])]
    weights_LHTS = weights_LHTS[..., : len(pieces)]
    return Map("hops", hops, pieces, weights_LHTS, "hop", "text")


def _encoded(pieces: list[str], weights_LHTS: np.ndarray, pooling: str) -> Map:
    """Returns the attention within a text; shown first is that of the vector which is classified.

    With `pooling` 'first', this is the vector of the first position; with 'mean', the mean over all
    positions, which is added as a query of its own; with '', nothing is classified.
    """
    S, queries = len(pieces), pieces
    weights_LHTS = weights_LHTS[:, :, :S, :S]
    if pooling == "mean":
        # A mean of vectors reads each key with the mean of their weights.
        mean_LH1S = weights_LHTS.mean(axis=2, keepdims=True)
        weights_LHTS = np.concatenate([mean_LH1S, weights_LHTS], axis=2)
        queries = ["all, mean", *pieces]
    first = 0 if pooling else -1
    return Map(KINDS["encoder"], queries, pieces, weights_LHTS, "from", "to", first)


def _weights(this: Inside, row: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the attention weights [L, H, T, S] of one row."""
    # A batch of one row: x[None] adds the batch axis, weights [L, 1, H, T, S] lose it again.
    inputs = {name: x[None] for name, x in row.items()}
    of_kinds = attention_weights.of_batch(this.params, inputs, model=this.model)
    return {kind: np.asarray(weights[:, 0]) for kind, weights in jax.device_get(of_kinds).items()}
