"""Classification without a network: logistic regression on counts of words and characters.

    pip install -r benchmarks/requirements.txt
    python -m benchmarks.bag_of_words --config=configs/korean_reviews.py \
        --config.data.directory=FOLDER

Takes what launch.py takes for a text classifier, reads the same splits, and prints a JSON line for
each set of features: accuracy and macro F1 of validation and test. Features are n-grams of words or
of characters (within words, with their ends), weighted by TF-IDF. The strength of regularisation
(C of scikit-learn) is the one that is best on the validation set.
"""

import json
import sys
import time

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion

from transformer.families.labels import class_names, classifiers
from transformer.families.texts import classification
from transformer.modes import command_line
from transformer.tasks import splits

STRENGTHS = (0.3, 1.0, 3.0, 10.0)
WORDS = {"analyzer": "word", "token_pattern": r"\S+", "ngram_range": (1, 2)}
CHARACTERS = {"analyzer": "char_wb", "ngram_range": (1, 4)}
FEATURES = {"words": [WORDS], "characters": [CHARACTERS], "both": [WORDS, CHARACTERS]}


def main(arguments: list[str]) -> None:
    """Prints a line for each of FEATURES."""
    config = command_line.parse(arguments)[2]
    texts, targets, names = {}, {}, None
    for split in ("train", "validation", splits.final_split(config)):
        corpus = classification.load(config, split)
        of_texts = corpus.labels
        names = names or sorted(set(of_texts))
        texts[split] = corpus.lines
        targets[split] = class_names.class_ids(of_texts, names, place=corpus.place)
    for name, options in FEATURES.items():
        start = time.perf_counter()
        parts = [
            (str(i), TfidfVectorizer(min_df=2, sublinear_tf=True, **x))
            for i, x in enumerate(options)
        ]
        extract = FeatureUnion(parts)
        features = {"train": extract.fit_transform(texts["train"])}
        features |= {split: extract.transform(texts[split]) for split in texts if split != "train"}
        best = {}
        for strength in STRENGTHS:
            model = LogisticRegression(C=strength, max_iter=300)
            model.fit(features["train"], targets["train"])
            scores = {
                split: score(model.predict(features[split]), targets[split], len(names))
                for split in texts
                if split != "train"
            }
            if not best or scores["validation"]["accuracy"] > best["validation"]["accuracy"]:
                best = {"C": strength, **scores}
        seconds = round(time.perf_counter() - start, 1)
        size = features["train"].shape[1]
        print(json.dumps({"features": name, "size": size, **best, "seconds": seconds}), flush=True)


def score(predictions: np.ndarray, targets: np.ndarray, num_classes: int) -> dict[str, float]:
    """Returns accuracy and macro F1, as the evaluator of a classifier computes them."""
    counts = classifiers.confusion(targets, predictions, num_classes)
    return {
        "accuracy": round(float((predictions == targets).mean()), 4),
        "macro_f1": round(float(np.nanmean(classifiers.precision_recall_f1(counts)[2])), 4),
    }


if __name__ == "__main__":
    main(sys.argv[1:])
