"""Measures the confidence of a calibrated run on test sets, and how well it tells them apart.

    python launch.py --mode=calibrate --workdir=runs/korean_english
    python -m benchmarks.confidence runs/korean_english docs.ko,docs.en news.ko,news.en

A set is SOURCE,TARGET, files of aligned lines. Areas under ROC are those of telling its good lines
from the others, and the lines of the first set from its own; the second of each pair is that of the
mean log P of a piece alone.
"""

import argparse
from pathlib import Path

import numpy as np

import transformer
from transformer.tasks import translation
from transformer.tools.confidence import calibrate, confidence, reliability

COLUMNS = [
    "set",
    "lines",
    "BLEU",
    "good",
    "predicted",
    "error",
    "chance",
    "ROC",
    "ROC",
    "first",
    "first",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workdir", type=Path)
    parser.add_argument("sets", nargs="+", help="SOURCE,TARGET; the first is of the domain")
    arguments = parser.parse_args()
    model, learnt = transformer.load(arguments.workdir), confidence.read(arguments.workdir)
    tokenize, first = model.config.evaluate.tokenize, None
    print("".join(f"{name:>10}" for name in COLUMNS))
    for names in arguments.sets:
        sources, references = (Path(x).read_text("utf-8").splitlines() for x in names.split(","))
        texts = model.translate(sources)
        pairs = [*zip(sources, texts, strict=True)]
        forced = confidence.forced_decoding(model.run, pairs, model.config.decode)
        features_NF = np.array([x.features for x in forced if x])  # without over-long lines
        weights = np.array([*learnt.weights.values()])
        predicted_N = confidence.logistic(features_NF @ weights + learnt.bias)
        scores = predicted_N, features_NF[:, 0]
        first = first or scores
        qualities = np.array(calibrate.chrf(texts, references, model.run.vocabulary))
        good_N = qualities[[x is not None for x in forced]] >= learnt.quality
        bleu = translation.score(texts, [references], tokenize=tokenize)["bleu"]
        apart = []
        for x, y in zip(first, scores, strict=True):
            is_first_N = np.arange(len(x) + len(y)) < len(x)
            apart.append(reliability.auc(np.concatenate([x, y]), is_first_N))
        figures = [bleu, good_N.mean(), predicted_N.mean()]
        figures.append(reliability.error(reliability.bins(predicted_N, good_N)))
        figures.append(reliability.error_by_chance(predicted_N))
        figures += [reliability.auc(x, good_N) for x in scores]
        name = Path(names.partition(",")[0]).stem
        print(f"{name:>10.10}{len(good_N):10}" + "".join(f"{x:10.3f}" for x in figures + apart))


if __name__ == "__main__":
    main()
