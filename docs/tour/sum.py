"""Word and position are added, and both can be read from the sum, if it is wide enough."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from docs.tour import order, picture, tiny
from transformer.data import pairs
from transformer.models.positions import sinusoids
from transformer.tasks.task import init_params

SENTENCE = np.array(["I", "like", "you", "but", "you", "don't", "like", "me"])
WIDTHS = (2, 8, 32, 128, 512, 2048)
WORDS, POSITIONS = 1000, 64
TRAINED = 128  # width
WAVES = {"sine, i = 0": 0, "cosine, i = 0": 1, "sine, i = 4": 8, "cosine, i = 4": 9}  # of 32


def encodings(positions_P: np.ndarray, width: int) -> np.ndarray:
    """Returns the paper's encodings PE_PD."""
    return np.asarray(sinusoids(jnp.asarray(positions_P)[None], width)[0])


def cosines(x_ND: np.ndarray, y_MD: np.ndarray) -> np.ndarray:
    """Returns the cosine of each x with each y."""
    unit = lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True)
    return unit(x_ND) @ unit(y_MD).T


def nearest(x_ND: np.ndarray, y_MD: np.ndarray) -> np.ndarray:
    """Returns which y is at the least distance from each x."""
    return (x_ND @ y_MD.T - (y_MD**2).sum(axis=-1) / 2).argmax(axis=-1)


def read(width: int) -> dict[str, float]:
    """Returns the mean |cosine| of words with positions, and how many sums tell each of the two.

    Words are random vectors of variance 1, as embeddings are before training. A sum tells its word
    if no other word's vector is nearer to it, and its position likewise.
    """
    words_VD = np.random.default_rng(0).standard_normal((WORDS, width))
    places_PD = encodings(np.arange(POSITIONS), width)
    words_V = np.arange(WORDS)
    sums_VD = words_VD + places_PD[words_V % POSITIONS]  # each word at one of the positions
    return {
        **{"width": width, "|cosine|": float(np.abs(cosines(words_VD, places_PD)).mean())},
        "√(2/πd)": (2 / np.pi / width) ** 0.5,
        "word": float(np.mean(nearest(sums_VD, words_VD) == words_V)),
        "position": float(np.mean(nearest(sums_VD, places_PD) == words_V % POSITIONS)),
    }


def apart(kind: str) -> list[float]:
    """Returns how far the two `like`, and the two `you`, are apart after an encoder layer."""
    source = jnp.array(np.unique(SENTENCE, return_inverse=True)[1][None] + 3)  # 0 to 2: special
    model = tiny.transformer(int(source.max()) + 1, positions=kind)
    inputs = pairs.inputs_of_single_pairs(source, source)
    params = init_params(model, {"inputs": inputs}, jax.random.key(0))
    of_source = {name: x for name, x in inputs.items() if name.startswith("source")}
    x_BTD = model.apply({"params": params}, **of_source, train=False, method="encode")
    return [float(jnp.linalg.norm(jnp.subtract(*x_BTD[0, w == SENTENCE]))) for w in ("like", "you")]


def turned(params: tiny.Tree, source: np.ndarray) -> str:
    """Returns the mean cosine of words with what positions have in common, |cosine| with the rest.

    What they have in common is their mean.
    """
    places_PD = encodings(np.arange(source.shape[1]), TRAINED)
    common_1D = places_PD.mean(axis=0, keepdims=True)
    words_VD = np.asarray(params["target_embedding"]["embedding"])[np.unique(source[source > 2])]
    rest = np.abs(cosines(words_VD, places_PD - common_1D)).mean()
    return f"cos {cosines(words_VD, common_1D).mean():.2f}, |cos| {rest:.2f}"


def lines(title: str, rows: list[dict], x: dict, fields: tuple[str, ...], **y: dict) -> dict:
    """Returns a chart with a line for each of these fields of the rows."""
    at = lambda row: {x["field"]: row[x["field"]]}
    values = [{**at(row), "of": name, "value": row[name]} for name in fields for row in rows]
    color = {"field": "of", "sort": None}
    color["legend"] = {"orient": "bottom", "title": None, "columns": 2}
    y = {"field": "value", "type": "quantitative", "title": None, **y}
    return {
        **{"title": title, "width": 165, "height": 180, "data": {"values": values}},
        "mark": {"type": "line", "point": len(rows) < 10},
        "encoding": {"x": {"type": "quantitative", **x}, "y": y, "color": color},
    }


def compare() -> None:
    """Trains with positions added, and concatenated; prints sizes, success and cosines."""
    pieces = tiny.vocabulary(order.sentence_pairs(), size=408)
    batch = tiny.batch_of(pieces, [pair[::-1] for pair in order.sentence_pairs()])
    build = functools.partial(tiny.transformer, len(pieces), d_model=TRAINED)
    models = {"added": build(), "concatenated": build(positions="appended")}
    untrained = jax.jit(functools.partial(init_params, models["added"], batch))(jax.random.key(0))
    print(f"{'untrained':41}{turned(untrained, batch['inputs']['source'])}")
    for name, model in models.items():
        params, right = order.learn(model, batch, steps=60)
        size = sum(x.size for x in jax.tree.leaves(params))
        cosine = turned(params, batch["inputs"]["source"])
        print(f"{name:13}{size:8} params, {right:5.0%} right   {cosine}")


def show() -> picture.Chart:
    """Returns the waves, and by width the cosines and what can be read from sums."""
    measured = [read(width) for width in WIDTHS]
    print("".join(f"{name:>11}" for name in measured[0]))
    for row in measured:
        print("".join(f"{x:11.4g}" for x in row.values()))
    rows_PD = encodings(np.arange(512), 512)  # each of norm 16: distance^2 is 2 * 16^2 * (1 - cos)
    closest = (512 * (1 - np.triu(cosines(rows_PD, rows_PD), 1).max())) ** 0.5
    print(f"512 encodings of width 512: the closest two are apart by {closest:.2f}")
    for name, kind in order.KINDS.items():
        like, you = apart(kind)
        print(f"positions {name:10} two `like` apart by {like:.2f}, two `you` by {you:.2f}")
    compare()

    waves = [
        {"position": i / 3, **{name: float(wave_D[c]) for name, c in WAVES.items()}}
        for i, wave_D in enumerate(encodings(np.arange(91) / 3, 32))
    ]
    log, both = {"type": "log", "nice": False}, ("word", "position")
    axis = {"values": WIDTHS, "format": "d", "labelFlush": False}
    by_width = {"field": "width", "scale": log, "axis": axis}
    panels = [
        lines("Components of PE", waves, {"field": "position"}, tuple(WAVES)),
        lines("|cos| of word and position", measured, by_width, ("|cosine|", "√(2/πd)"), scale=log),
        lines("Right when read from the sum", measured, by_width, both, axis={"format": "%"}),
    ]
    return {"hconcat": panels, "resolve": {"scale": {"color": "independent"}}, "spacing": 24}
