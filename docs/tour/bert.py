"""BERT, the encoder alone: a masked word, from those on both sides of it."""

import itertools
from collections.abc import Iterator

import jax
import numpy as np

from docs.tour import picture, tiny
from transformer.data.tokens import Side
from transformer.families.texts import texts

STEPS, SHARE = 200, 0.34  # on average one of the three words is masked


def batches(ids: list[list[int]], vocab_size: int) -> Iterator[dict]:
    """Yields batches of all sentences, each time with other words masked."""
    lengths = [len(sentence) for sentence in ids]
    side = Side(np.concatenate(ids), np.concatenate([[0], np.cumsum(lengths)]))
    every = np.arange(len(ids))
    for step in itertools.count():
        shape, masking = (len(ids), max(lengths)), {"share": SHARE, "vocab_size": vocab_size}
        yield texts.masked(side, every, every, shape, (0, step), **masking)


def show() -> picture.Chart:
    """Trains a BERT and a GPT on the same sentences; returns what each expects for the object."""
    pieces = tiny.vocabulary(tiny.clauses(), size=350)
    ids = pieces.encode([text for (text,) in tiny.clauses()])
    bert = tiny.masked_language_model(len(pieces))
    bert_params, _ = tiny.train(bert, batches(ids, len(pieces)), steps=STEPS, rate=5e-3)

    data = tiny.next_tokens(pieces, tiny.clauses())
    whole = np.ones_like(data["tokens"])
    inputs = {"tokens": data["tokens"], "positions": data["positions"], "segments": whole}
    batch = {"inputs": inputs, "targets": data["targets"], "weights": whole.astype(np.float32)}
    gpt = tiny.language_model(len(pieces))
    gpt_params, _ = tiny.train(gpt, itertools.repeat(batch), steps=STEPS, rate=5e-3)

    one = {name: array[:1] for name, array in inputs.items()}  # 나는 ...: position 1 sees <s> 나는
    logits = gpt.apply({"params": gpt_params}, **one, train=False)[0, 1]
    expected = {"GPT: 나는 ___": jax.nn.softmax(logits)}
    for verb in tiny.MEALS:
        [[subject, *_], [last, *_]] = pieces.encode(["나는", verb])
        sentence = {"ids": np.array([[pieces.start, subject, texts.MASK, last]])}
        places = {"masked": np.array([[2]]), "positions": np.arange(4)[None]}
        sentence |= {**places, "segments": np.ones((1, 4), int)}
        logits = bert.apply({"params": bert_params}, **sentence, train=False)[0, 0]
        expected[f"BERT: 나는 ___ {verb}"] = jax.nn.softmax(logits)
    rows, objects = [], [word for words in tiny.MEALS.values() for word in words]
    print(f"{'':18}" + "".join(f"{word:>7}" for word in objects))
    for asked, p_V in expected.items():
        shares = [float(p_V[i]) for i, *_ in pieces.encode(objects)]
        print(f"{asked:16}" + "".join(f"{p:8.2f}" for p in shares))
        rows += [
            {"sentence": asked, "word": w, "P": p} for w, p in zip(objects, shares, strict=True)
        ]
    size = {"width": 480, "height": 150, "title": "P(the missing word)"}
    return picture.heatmap(rows, "word", "sentence", "P", **size)
