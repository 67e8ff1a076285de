"""The section on hidden pieces: a masked language model's predictions for them."""

import jax
import numpy as np

from transformer.data.tokenizer import Pieces
from transformer.tasks import vocabularies
from transformer.tools.pages.attention_view import readable
from transformer.tools.pages.page import Section, Table
from transformer.tools.report import inside
from transformer.tools.report.inside import Inside

SENTENCES, GUESSES = 8, 5

ABOUT = (
    "Texts that training has not seen, with as large a share of their pieces hidden as in "
    "training, at random. A row has a hidden piece, and those that the model finds likeliest, each "
    "with its probability. A dot before a piece says that it continues the word before."
)


def section(loaded: Inside) -> Section | None:
    """Returns the model's guesses of hidden pieces in a few texts of the test set.

    None for tasks other than masked language modelling.
    """
    run = loaded.run
    if "mask_share" not in run.config.data:
        return None
    from transformer.families.texts import texts

    if not loaded.items:
        return Section("Hidden pieces", [f"Not evaluated yet: `{run.command('evaluate')}`"])
    data, vocabulary = run.config.data, vocabularies.read(run.workdir, run.config)
    columns = ["hidden", *map(str, range(1, GUESSES + 1))]
    parts, chosen = [ABOUT], inside.sentences(loaded, SENTENCES)
    for item, number in zip(chosen.items, chosen.numbers, strict=True):
        ids = vocabulary.encode([item["input"]])[0][: data.max_length]
        row = texts.one_row([ids], len(ids))
        # The share is of the pieces without END, which is never hidden.
        count = max(1, round(data.mask_share * (len(ids) - 1)))
        # Positions to hide, from 1: position 0 has the start token, position i + 1 has piece i. The
        # seed is the line number, so that each report hides the same pieces.
        hidden = 1 + np.sort(np.random.default_rng(number).permutation(len(ids) - 1)[:count])
        truth = row["ids"][hidden]
        row["ids"] = np.where(np.isin(row["positions"], hidden), texts.MASK, row["ids"])
        # A batch of one row: x[None] adds the batch axis.
        inputs = {name: x[None] for name, x in row.items()} | {"masked": hidden[None]}
        logits_1TV = loaded.model.apply({"params": loaded.params}, **inputs, train=False)
        probabilities_TV = np.asarray(jax.nn.softmax(logits_1TV[0]))
        rows = []
        for target, p_V in zip(truth, probabilities_TV, strict=True):
            likeliest = np.argsort(-p_V)[:GUESSES]
            rows.append([_named(vocabulary, p_V, i) for i in (target, *likeliest)])
        surfaces = [text for _, text in vocabulary.surfaces(item["input"])][: len(ids) - 1]
        for i in hidden - 1:
            surfaces[i] = " ____" if surfaces[i].startswith(" ") else "____"
        parts += ["".join(surfaces), Table(columns, rows)]
    return Section("Hidden pieces", parts)


def _named(vocabulary: Pieces, probabilities_V: np.ndarray, i: int) -> str:
    """Returns a piece and its probability: 'the 31%', or '·ing 8%' for a piece inside a word."""
    # After '▁a', a piece without '▁' continues a word and gets a dot.
    [piece] = readable(["▁a", *vocabulary.pieces([i])])[1:]
    return f"{piece} {probabilities_V[i]:.0%}"
