"""Makes pairs of sentences, paraphrases or not, from translations.

    python -m benchmarks.paraphrases TATOEBA FOLDER

TATOEBA holds train.de.xz and train.en.xz, FOLDER gets train.tsv, dev.tsv and test.tsv, a line
LABEL<tab>A<tab>B a pair. Two translations of one German sentence are the 'same'. For each such
pair, A or B and the sentence of another group with the most words in common (Jaccard) are 'other',
so that the overlap alone does not tell the label. A group are the sentences that translations join,
directly or by others; it is in one split. Prints the accuracy on the test set of the most frequent
label, and of the best threshold on the overlap.
"""

import argparse
import collections
import itertools
import lzma
import re
import zlib
from pathlib import Path

import numpy as np

from transformer.tools.pages import measures

SPLITS = {"train": range(7), "dev": range(7, 8), "test": range(8, 10)}  # tenths of the groups
# Of each split's sentences, those of 'same' pairs first, so that a sentence alone does not tell the
# label. As many in all splits: more would have more words in common.
POOL = 13_000


def words(text: str) -> tuple[str, ...]:
    """Returns the words of a text without case and punctuation, by which texts are compared."""
    return tuple(re.findall(r"\w+", text.lower()))


def overlap(a: str, b: str) -> float:
    """Returns the Jaccard index of the words of two texts."""
    a, b = set(words(a)), set(words(b))
    return len(a & b) / len(a | b)


def grouped(german: list[str], english: list[str]) -> dict[tuple, tuple[list, list]]:
    """Returns {group: (pairs of different translations of one sentence, all English texts)}."""
    translations, parents = collections.defaultdict(dict), {}

    def root(x: tuple) -> tuple:
        while (parent := parents.setdefault(x, x)) != x:
            parents[x] = parents[parent]  # halves the path
            x = parents[x]
        return x

    for source, target in zip(german, english, strict=True):
        translations[words(source)].setdefault(words(target), target)
        parents[root(("de", *words(source)))] = root(("en", *words(target)))
    pairs, texts = (collections.defaultdict(dict) for _ in range(2))
    for source, targets in translations.items():
        group = root(("de", *source))
        texts[group] |= dict.fromkeys(targets.values())
        # Of translations a b c the pairs a b and b c; a pair of two sources counts once.
        neighbours = itertools.pairwise(targets.values())
        pairs[group] |= {tuple(sorted(pair)): pair for pair in neighbours}
    return {group: ([*pairs[group].values()], [*texts[group]]) for group in texts}


def most_similar(groups: dict[tuple, tuple[list, list]]) -> list[tuple[str, str]]:
    """Returns, for each pair of the groups, one of its texts with a text of another group."""
    owner = {text: g for g, (pairs, _) in groups.items() for pair in pairs for text in pair}
    owner = owner | {text: g for g, (_, texts) in groups.items() for text in texts}
    paired = sum(2 * len(pairs) for pairs, _ in groups.values())
    texts = [*owner][: max(POOL, paired)]
    numbers = collections.defaultdict(lambda: len(numbers))  # {word: its row, in order of use}
    bags = [[numbers[word] for word in set(words(text))] for text in texts]
    has_VN = np.zeros((len(numbers), len(texts)), bool)
    for i, bag in enumerate(bags):
        has_VN[bag, i] = True
    sizes_N = has_VN.sum(axis=0)
    index = {text: i for i, text in enumerate(texts)}
    group_N = np.unique([str(owner[text]) for text in texts], return_inverse=True)[1]
    chosen = set()

    def nearest(text: str) -> tuple[float, tuple[str, str]]:
        bag = bags[index[text]]
        common_N = has_VN[bag].sum(axis=0)
        overlap_N = common_N / (sizes_N + len(bag) - common_N)
        overlap_N[group_N == group_N[index[text]]] = -1
        ranked = np.argsort(-overlap_N, kind="stable")
        candidates = ((overlap_N[i], (text, texts[i])) for i in ranked)
        # A pair is made once, whichever of its texts comes first.
        return next(x for x in candidates if not {x[1], x[1][::-1]} & chosen)

    for pair in (pair for pairs, _ in groups.values() for pair in pairs):
        chosen.add(max(map(nearest, pair))[1])
    return sorted(chosen)


def accuracy_by_overlap(train: list[tuple], test: list[tuple]) -> measures.Interval:
    """Returns the accuracy on `test` of the threshold that is best on `train`, in its direction."""
    labels, test_labels = (np.array([x[0] == "same" for x in part]) for part in (train, test))
    scores, test_scores = (np.array([overlap(*x[1:]) for x in part]) for part in (train, test))
    right = {t: ((scores >= t) == labels).mean() for t in np.unique(scores)}
    threshold = max(right, key=lambda t: max(right[t], 1 - right[t]))
    correct = ((test_scores >= threshold) == test_labels) == (right[threshold] >= 0.5)
    return measures.wilson(int(correct.sum()), len(test))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tatoeba", type=Path, help="the folder of train.de.xz and train.en.xz")
    parser.add_argument("folder", type=Path, help="where train.tsv, dev.tsv and test.tsv go")
    arguments = parser.parse_args()
    read = lambda name: lzma.decompress((arguments.tatoeba / name).read_bytes()).decode()
    groups = grouped(*(read(f"train.{side}.xz").splitlines() for side in ("de", "en")))
    tenth = {group: zlib.crc32(repr(group).encode()) % 10 for group in groups}
    random, splits = np.random.default_rng(0), {}
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for split, tenths in SPLITS.items():
        part = {group: x for group, x in groups.items() if tenth[group] in tenths}
        same = [("same", *pair) for pairs, _ in part.values() for pair in pairs]
        lines = same + [("other", *pair) for pair in most_similar(part)]
        # In a random order, lines and the two texts of a line.
        lines = [lines[i] for i in random.permutation(len(lines))]
        lines = [(x, b, a) if random.random() < 0.5 else (x, a, b) for x, a, b in lines]
        splits[split] = lines
        text = "".join("\t".join(line) + "\n" for line in lines)
        (arguments.folder / f"{split}.tsv").write_text(text, encoding="utf-8")
    known = {words(text) for line in splits["train"] for text in line[1:]}
    unseen = [line for split in ("dev", "test") for line in splits[split]]
    assert not known & {words(text) for line in unseen for text in line[1:]}
    print({split: len(lines) for split, lines in splits.items()})
    labels = collections.Counter(label for label, *_ in splits["test"])
    print("most frequent label", max(labels.values()) / len(splits["test"]))
    print("overlap of words", accuracy_by_overlap(splits["train"], splits["test"]))


if __name__ == "__main__":
    main()
