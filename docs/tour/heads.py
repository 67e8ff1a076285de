"""Self-attention, in several heads; the decoder's is masked."""

import itertools

import numpy as np

from docs.tour import picture, tiny
from transformer.tasks import attention_weights

PARTS = {
    "encoder": ("source", "source", "encoder, self-attention"),
    "decoder": ("input", "input", "decoder, masked self-attention"),
    "cross": ("input", "source", "decoder to encoder"),
}


def show() -> picture.Chart:
    """Returns the maps of all heads of the model of step 1, for the sentence held out."""
    pieces, model, params, _ = tiny.translator()
    inputs = tiny.batch_of(pieces, [tiny.HELD_OUT])["inputs"]
    sides = {"source": inputs["source"][0], "input": inputs["target"][0]}
    names = {side: tiny.names(pieces, ids) for side, ids in sides.items()}
    weights = attention_weights.batch_weights(params, inputs, model=model)
    lines = []
    for part, (queries, keys, title) in PARTS.items():
        maps = []
        for head, weights_TS in enumerate(np.asarray(weights[part][0, 0])):
            print(f"\n{title}, head {head + 1}\n{'':10}" + "".join(f"{k:>8}" for k in names[keys]))
            for query, weights_S in zip(names[queries], weights_TS, strict=True):
                print(f"{query:10}" + "".join(f"{w:8.2f}" for w in weights_S))
            cells = itertools.product(enumerate(names[queries]), enumerate(names[keys]))
            rows = [
                {"from": query, "to": key, "weight": float(weights_TS[t, s])}
                for (t, query), (s, key) in cells
            ]
            size = {"width": 230, "height": 150, "title": f"{title}, head {head + 1}"}
            maps.append(picture.heatmap(rows, "to", "from", "weight", **size))
        lines.append({"hconcat": maps})
    return {"vconcat": lines}
