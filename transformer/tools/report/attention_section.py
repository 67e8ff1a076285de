"""The section on attention: a trained model's attention weights in a few sentences."""

import functools

import jax
import numpy as np

from transformer.data import tokenizer
from transformer.tasks import attention_weights, vocabularies
from transformer.tasks.task import load_task
from transformer.tools.pages import attention_view
from transformer.tools.pages.attention_view import KINDS, Example, Map, readable
from transformer.tools.pages.page import Section
from transformer.tools.report import inside
from transformer.tools.report.inside import Inside

SENTENCES = 4
MAX_TOKENS = 48  # of a text without a translation


def section(loaded: Inside) -> Section | None:
    """Returns the attention in a few texts of the test set.

    None for a model without attention weights, and for images (image_attention.py).
    """
    if not hasattr(loaded.model, "attention_weights"):
        return None
    if not loaded.items:
        return Section("Attention", [f"Not evaluated yet: `{loaded.run.command('evaluate')}`"])
    examples = []
    if run := inside.translation_model(loaded):
        # The run's own translations, saved by the evaluation.
        chosen = inside.sentences(loaded, SENTENCES).items
        tagged = functools.partial(tokenizer.tagged, loaded.run.config.decode.tag)
        pairs = [(tagged(x["input"]), x["output"]) for x in chosen]
        examples = [attention_view.pair_example(run, *pair) for pair in pairs]
    elif loaded.columns.get("input") != "image":
        examples = _texts(loaded)
    if not examples or not examples[0].maps:
        return None
    return Section("Attention", [attention_view.ABOUT, attention_view.view(examples)])


def _texts(loaded: Inside) -> list[Example]:
    """Returns the attention in texts, as the task's `reader` gives them to the model.

    Classified texts include right and wrong predictions, if there are any.
    """
    task = load_task(loaded.run.config.task)
    if not hasattr(task, "reader"):
        return []
    # All items by length, so that `labelled` chooses short and long texts.
    is_labelled = {"reference", "output"} <= loaded.items[0].keys()
    chosen = inside.sentences(loaded, len(loaded.items) if is_labelled else SENTENCES)
    if is_labelled:
        chosen = inside.labelled(chosen, SENTENCES)
    pooling = getattr(loaded.model, "pooling", "mean") if is_labelled else ""
    read = task.reader(loaded.run.config, loaded.run.workdir)
    examples = []
    for item, number in zip(chosen.items, chosen.numbers, strict=True):
        text = item["input"]
        title = text.replace("\t", " | ")
        if is_labelled:
            title += f" ({item['reference']}, predicted {item['output']})"
        examples.append(Example(title, _maps(loaded, text, read(text, number), pooling)))
    return examples


def _maps(loaded: Inside, text: str, row: dict[str, np.ndarray], pooling: str) -> list[Map]:
    """Returns the attention within a text, whose inputs to the model are `row`; [] without any.

    `pooling` names the classified vector, whose query the page shows first: 'first' is the first
    position; 'mean' is the mean over all positions, added as a query. With '', nothing is
    classified, and the page shows all queries.
    """
    vocabulary = vocabularies.read(loaded.run.workdir, loaded.run.config)
    # A batch of one row: x[None] adds the batch axis; the weights are [L, 1, H, T, S].
    inputs = {name: x[None] for name, x in row.items()}
    sown = attention_weights.batch_weights(loaded.params, inputs, model=loaded.model)
    if not sown:  # such as of an LSTM alone
        return []
    [(kind, weights_LBHTS)] = jax.device_get(sown).items()
    weights_LHTS = weights_LBHTS[:, 0]
    if kind == "decoder":
        # Token t of the row is the one before target t: query t reads tokens 0 to t and predicts
        # piece t of the text.
        T = min(MAX_TOKENS, len(row["tokens"]))
        targets = readable(vocabulary.pieces(vocabulary.encode([text])[0][:T]))
        seen = readable(vocabulary.pieces(row["tokens"][:T]))
        weights_LHTS = weights_LHTS[:, :, :T, :T]
        return [Map(KINDS[kind], targets, seen, weights_LHTS, "predicts", "has seen")]
    # Mask: padding has segment 0.
    pieces = readable(vocabulary.pieces(row["ids"][row["segments"] > 0]))
    S = len(pieces)
    if kind == "hops":  # learned queries (Lin et al. 2017)
        hops = [f"hop {i + 1}" for i in range(weights_LHTS.shape[2])]
        return [Map("hops", hops, pieces, weights_LHTS[..., :S], "hop", "text")]
    queries, weights_LHTS = pieces, weights_LHTS[:, :, :S, :S]
    if pooling == "mean":
        # The mean of vectors attends to a key with the mean of their weights.
        mean_LH1S = weights_LHTS.mean(axis=2, keepdims=True)
        weights_LHTS = np.concatenate([mean_LH1S, weights_LHTS], axis=2)
        queries = ["all, mean", *pieces]
    return [Map(KINDS[kind], queries, pieces, weights_LHTS, first=0 if pooling else -1)]
