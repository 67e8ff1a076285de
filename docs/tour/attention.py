"""Attention, and what its map is."""

import itertools

import numpy as np

from docs.tour import picture, tiny
from transformer.tasks import attention_weights


def show() -> picture.Chart:
    """Trains a recurrent model with additive attention; returns its weights for one sentence."""
    sentences = tiny.sentence_pairs()
    pieces = tiny.vocabulary(sentences)
    model = tiny.recurrent(len(pieces), "additive", d_model=32)
    batches = itertools.repeat(tiny.batch_of(pieces, sentences))
    params, _ = tiny.train(model, batches, steps=150, rate=1e-2)

    example = tiny.batch_of(pieces, [tiny.HELD_OUT])
    logits = model.apply({"params": params}, **example["inputs"], train=False)
    weights_LBHTS = attention_weights.batch_weights(params, example["inputs"], model=model)["cross"]
    source, target = (
        tiny.names(pieces, ids[0]) for ids in (example["inputs"]["source"], example["targets"])
    )
    says = tiny.names(pieces, np.asarray(logits[0].argmax(-1)))
    rows = [
        {"source": s, "target": t, "weight": float(weights_LBHTS[0, 0, 0, i, j])}
        for (i, t), (j, s) in itertools.product(enumerate(target), enumerate(source))
    ]
    print(f"{' '.join(source)}  ->  {' '.join(says)}\n")
    print(" " * 10 + "".join(f"{s:>8}" for s in source))
    for i, t in enumerate(target):
        cells = rows[i * len(source) : (i + 1) * len(source)]
        print(f"{t:10}" + "".join(f"{cell['weight']:8.2f}" for cell in cells))
    title = "Which source position each target token reads"
    return picture.heatmap(rows, "source", "target", "weight", width=300, height=260, title=title)
