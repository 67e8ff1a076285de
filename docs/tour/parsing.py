"""A tree is a sequence, too: which word "with ..." belongs to, as two trees of one sentence."""

import itertools
import math
import random

from docs.tour import beam, picture, tiny
from transformer.decoding import compiled
from transformer.decoding.batch_decoder import BatchDecoder, Part
from transformer.families.parsing import brackets, trees
from transformer.families.parsing.trees import Constituent, Tree

PEOPLE = ["girl", "boy", "woman", "man", "teacher", "doctor"]
# {verb: (its tool, what somebody has, what may be either)}
WITH = {
    "saw": ("telescope", "hat", "glasses"),
    "found": ("lamp", "map", "dog"),
    "hit": ("stick", "beard", "bag"),
}
TITLES = ("saw ... with the glasses", "the man with the glasses")  # what the sentence may mean
SENTENCE = "the girl saw the man with the glasses"
OF_VERB = "(TOP (S (NP (DT the) (NN {})) (VP (VBD {}) (NP (DT the) (NN {})) (PP {}))))"
OF_NOUN = "(TOP (S (NP (DT the) (NN {})) (VP (VBD {}) (NP (NP (DT the) (NN {})) (PP {})))))"
PHRASE = "(IN with) (NP (DT the) (NN {}))"


def treebank() -> list[Tree]:
    """Returns a tree of each sentence, or two; no sentence has both the girl and the man."""
    corpus = []
    for who, verb, whom in itertools.product(PEOPLE, WITH, PEOPLE):
        tool, possession, either = WITH[verb]
        readings = [(OF_VERB, tool), (OF_NOUN, possession), (OF_VERB, either), (OF_NOUN, either)]
        if who != whom and {who, whom} != {"girl", "man"}:
            corpus += [
                trees.from_text(text.format(who, verb, whom, PHRASE.format(noun)))
                for text, noun in readings
            ]
    return corpus


def show() -> picture.Chart:
    """Trains a parser; returns the two likeliest trees of SENTENCE."""
    corpus = treebank()
    random.Random(0).shuffle(corpus)
    symbols = brackets.learn(corpus)
    words = brackets.Brackets(tuple(sorted({word for tree in corpus for word in tree.words})))
    sides = [(" ".join(tree.words), " ".join(trees.symbols(tree))) for tree in corpus]
    texts, linearised = zip(*sides, strict=True)
    batches = itertools.repeat(tiny.batch(words.encode(texts), symbols.encode(linearised)))
    size = max(len(words), len(symbols))
    model = tiny.transformer(size, tied_embeddings="target", num_layers=2)
    params, history = tiny.train(model, batches, steps=400, rate=5e-3)
    print(f"{len(corpus)} trees: {history[-1]['nats_per_token']:.3f} nats a symbol")

    search = {**beam.SEARCH, "num_hypotheses": 2, "extra_length": 30}
    decoder = BatchDecoder(model, None, beam_width=4, **search)
    params = compiled.cast_params(params, model)
    lines = [SENTENCE.replace("glasses", noun) for noun in WITH["saw"]]
    parts = [Part(tuple(ids)) for ids in words.encode(lines)]
    for line, hypotheses in zip(lines, decoder(params, parts), strict=True):
        print(line)
        readings = {}
        for ids, score in hypotheses:
            tree = trees.repaired(symbols.decode([ids])[0].split(), line.split())
            print(f"  P = {math.exp(score):.2f}  {trees.to_text(tree)}")
            is_of_noun = Constituent("NP", 3, 8) in tree.constituents  # the man with the ...
            readings[TITLES[is_of_noun]] = drawn(tree, math.exp(score))
    return {"hconcat": [{"title": title, **readings[title]} for title in TITLES]}


def drawn(tree: Tree, probability: float) -> picture.Chart:
    """Returns a tree, its root on top and its probability in the corner; words are its leaves."""
    nodes = []
    leaves = [Constituent(word, i, i + 1) for i, word in enumerate(tree.words)]
    for label, start, stop in [*tree.constituents, *leaves]:
        node = {"says": label, "start": start, "stop": stop, "x": (start + stop) / 2}
        above = [x for x in nodes if x["start"] <= start and stop <= x["stop"]]
        parent = above[-1] if above else {"x": node["x"], "y": 0}
        nodes.append({**node, "y": len(above), "from x": parent["x"], "from y": parent["y"]})
    place = {x: {"field": x, "type": "quantitative", "axis": None} for x in "xy"}
    place["x"]["scale"], place["y"]["scale"] = {"padding": 20}, {"padding": 12, "reverse": True}
    text, color = {"field": "says"}, {"test": "datum.says == 'PP'", "value": picture.ORANGE}
    mark = {"type": "text", "fontSize": 13}
    layers = [
        {"mark": "rule", "encoding": {"x2": {"field": "from x"}, "y2": {"field": "from y"}}},
        {"mark": {**mark, "stroke": "white", "strokeWidth": 8}, "encoding": {"text": text}},
        {"mark": mark, "encoding": {"text": text, "color": {"condition": color}}},
    ]
    drawing = {"data": {"values": nodes}, "encoding": place, "layer": layers}
    shown = {"text": {"field": "P", "type": "quantitative", "format": ".2f"}}
    shown |= {"x": {"value": 30}, "y": {"value": 30}}
    number = {"data": {"values": [{"P": probability}]}, "mark": mark, "encoding": shown}
    return {"width": 340, "height": 240, "layer": [drawing, number]}
