"""A word's sense is what stands around it: the vectors of 썼다 in many sentences, by layer."""

import itertools
import random
from collections.abc import Iterator

import flax.linen as nn
import jax
import numpy as np

from docs.tour import picture, tiny
from transformer.data.tokenizer import END
from transformer.data.tokens import Side
from transformer.families.texts import texts
from transformer.models.layers import Layer
from transformer.tasks.task import init_params

WORD = "썼다"
# {sense: (what WORD is said of, what else is said of these, what may come of it)}
SENSES = {
    "spent (돈을)": ("돈을 용돈을 월급을 상금을", "냈다 날렸다", "지갑이 통장이 가계부가"),
    "wore (모자를)": ("모자를 안경을 가면을 투구를", "벗었다 걸쳤다", "머리가 얼굴이 거울이"),
    "was bitter (맛이)": ("맛이 약이 커피가 나물이", "달았다 좋았다", "설탕이 물이 혀가"),
    "wrote (글을)": ("글을 편지를 일기를 소설을", "읽었다 지었다", "종이가 연필이 잉크가"),
}
OTHERS = ("민수는 유나는 톰은 나는", "어제 오늘 아침에 밤에", "집에서 학교에서 시장에서 공원에서")
HELD_OUT, ROWS, LENGTH, SHARE, STEPS = 128, 64, 8, 0.25, 600


def beginnings() -> list[tuple[str, str, list[str]]]:
    """Returns (sense, noun, words before the verb); two or three of these follow the noun."""
    nouns = [(sense, noun) for sense, (known, *_) in SENSES.items() for noun in known.split()]
    cases = itertools.product(nouns, *(words.split() for words in OTHERS), (0, 1))
    return [(*pair, [*words[:at], pair[1], *words[at:]]) for pair, *words, at in cases]


def finished(rng: random.Random, sense: str, words: list[str]) -> list[str]:
    """Returns a sentence of which the verb, and what may come of it, depend on the sense."""
    _, verbs, results = SENSES[sense]
    result = ["그래서", rng.choice(results.split())]
    return [*words, rng.choice([WORD, WORD, *verbs.split()]), *rng.choice([[], result])]


def tokenised(sentences: list[list[str]], ids: dict[str, int]) -> Side:
    """Returns the ids of sentences; each word is a token."""
    encoded = [[*map(ids.get, words), END] for words in sentences]
    return Side(np.concatenate(encoded), np.cumsum([0, *map(len, encoded)]))


def batches(side: Side, vocab_size: int) -> Iterator[dict]:
    """Yields batches of random sentences, each time with other words masked."""
    for step in itertools.count():
        items = np.random.default_rng(step).choice(len(side.lengths), ROWS, replace=False)
        shape, masking = (ROWS, LENGTH), {"share": SHARE, "vocab_size": vocab_size}
        yield texts.masked(side, items, np.arange(ROWS), shape, (0, step), **masking)


def vectors(model: nn.Module, params: tiny.Tree, side: Side) -> list[np.ndarray]:
    """Returns, after each layer, the vectors [B, D] of the last token of each text."""
    every = np.arange(len(side.lengths))
    inputs = texts.inputs(side, every, every, (len(every), int(side.lengths[0])))
    outputs = {"capture_intermediates": lambda module, _: isinstance(module, Layer)}
    _, state = model.apply({"params": params}, **inputs, train=False, method="encode", **outputs)
    layers = sorted(state["intermediates"]["encoder"].items())
    return [np.asarray(layer["__call__"][0][0][:, -1]) for _, layer in layers]


def agreement(x_BD: np.ndarray, senses: list[str], nouns: list[str]) -> float:
    """Returns the share of vectors whose nearest, of sentences with another noun, has its sense."""
    distance_BB = np.linalg.norm(x_BD[:, None] - x_BD, axis=-1)
    distance_BB[np.array(nouns)[:, None] == nouns] = np.inf
    nearest_B = distance_BB.argmin(axis=1)
    return float(np.mean([senses[i] == s for i, s in zip(nearest_B, senses, strict=True)]))


def plane(x_BD: np.ndarray) -> np.ndarray:
    """Returns the first two principal components [2, B]; the farthest is positive in each."""
    centred_BD = x_BD - x_BD.mean(axis=0)
    _, _, axes_DD = np.linalg.svd(centred_BD, full_matrices=False)
    points_2B = axes_DD[:2] @ centred_BD.T
    return points_2B * np.sign([x[np.abs(x).argmax()] for x in points_2B])[:, None]


def show() -> picture.Chart:
    """Trains a BERT; returns the vectors of WORD in unseen sentences, before and after."""
    rng, cases = random.Random(0), beginnings()
    rng.shuffle(cases)
    known = [finished(rng, sense, words) for sense, _, words in 2 * cases[HELD_OUT:]]
    senses, nouns, unseen = zip(*cases[:HELD_OUT], strict=True)
    ids = {word: i for i, word in enumerate(sorted(set().union(*known)), texts.FIRST_PIECE)}
    vocab_size = texts.FIRST_PIECE + len(ids)
    data = batches(tokenised(known, ids), vocab_size)
    model = tiny.masked_language_model(vocab_size, num_layers=2)
    before = init_params(model, next(data), jax.random.key(0))
    after, history = tiny.train(model, data, steps=STEPS, rate=5e-3)
    print(f"{len(known)} sentences: {history[-1]['nats_per_token']:.2f} nats a masked word")

    ended = tokenised([[*words, WORD] for words in unseen], ids)
    x, y = ({"field": field, "type": "quantitative", "title": None} for field in "xy")
    color = {"field": "sense", "type": "nominal", "sort": [*SENSES], "title": None}
    color["legend"] = {"orient": "bottom", "columnPadding": 24}
    text = {"field": "share", "type": "quantitative", "format": ".0%"}
    points = {
        **{"mark": {"type": "circle", "size": 25}, "transform": [{"flatten": ["x", "y", "sense"]}]},
        "encoding": {"x": x, "y": y, "color": color},
    }
    corner = {"x": {"value": 8}, "y": {"value": 8}}
    number = {"mark": {"type": "text", "align": "left"}, "encoding": {"text": text, **corner}}
    lines = []
    for when, params in {"before": before, "after": after}.items():
        panels = []
        for layer, x_BD in enumerate(vectors(model, params, ended), start=1):
            title, share = f"layer {layer}, {when} training", agreement(x_BD, senses, nouns)
            print(f"{title}: {share:.0%} have one of the same sense nearest")
            xs, ys = plane(x_BD).tolist()
            data = {"values": [{"share": share, "x": xs, "y": ys, "sense": senses}]}
            size = {"title": title, "width": 270, "height": 200}
            panels.append({"data": data, "layer": [points, number], **size})
        lines.append({"hconcat": panels})
    title = f"{WORD} in {HELD_OUT} sentences, two principal components"
    number = "In the corner: how often the nearest has the same sense (by chance 20 %)"
    return {"title": {"text": title, "subtitle": number}, "vconcat": lines}
