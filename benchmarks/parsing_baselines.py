"""Scores two parsers without a network on a treebank: right-branching trees, and a PCFG.

    python -m benchmarks.parsing_baselines FOLDER
    python -m benchmarks.parsing_baselines FOLDER --trees WORKDIR/evaluation/dev.hypothesis

FOLDER holds train.trees and dev.trees, as for configs/parsing.py. A line per parser has EVALB's
scores on dev.trees, for sentences of at most --longest words and for all; the PCFG parses only the
first. The second command adds the trees that a run has written.

The PCFG is read off the training trees (Charniak 1996, "Tree-bank Grammars"). Rules are binarised
from the left with one sibling as context, a chain of unary rules is one label, and rare words are
known by their form. CKY finds the likeliest tree.
"""

import argparse
import collections
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from transformer.families.parsing import evalb, treebank, trees
from transformer.families.parsing.trees import UNTAGGED, Constituent, Tree
from transformer.runtime import progress

RARE = 2  # occurrences of a word that is known by its form only
Node = tuple[str, list | int]  # (label, children), or (tag, position of the word)


def nested(tree: Tree) -> Node:
    """Returns the root, TOP, of a tree with its children."""
    root, waiting = ("TOP", []), collections.deque(tree.constituents)
    opened = [(root, len(tree.words))]
    for i, tag in enumerate(tree.tags):
        while waiting and waiting[0].start == i:
            label, _, stop = waiting.popleft()
            node = (label, [])
            opened[-1][0][1].append(node)
            opened.append((node, stop))
        opened[-1][0][1].append((tag, i))
        while opened and opened[-1][1] == i + 1:
            opened.pop()
    return root


def collapsed(node: Node) -> Node:
    """Returns a node whose unary rules are one label: NP over NN is NP+NN."""
    label, children = node
    while isinstance(children, list) and len(children) == 1:
        (below, children) = children[0]
        label = f"{label}+{below}"
    return label, children


def rules(node: Node) -> Iterator[tuple[str, ...] | tuple[str, int]]:
    """Yields (label, left, right) of each rule in binary form, and (label, position) of words.

    NP over DT JJ NN is NP over DT and @NP@DT, which is over JJ and NN.
    """
    label, children = node
    if isinstance(children, int):
        yield label, children
        return
    children, above = [*map(collapsed, children)], label
    for i, child in enumerate(children[:-1]):
        rest = children[i + 1][0]
        if i < len(children) - 2:
            rest = f"@{label}@{child[0].partition('+')[0]}"
        yield above, child[0], rest
        above = rest
    for child in children:
        yield from rules(child)


def form(word: str) -> str:
    """Returns what a rare word looks like: '<A-a>es' of Mice-Genes."""
    shape = re.sub(r"[A-Z]+[a-z]*", "A", re.sub(r"\d+", "0", word))
    return f"<{re.sub(r'[a-z]+', 'a', shape)[:4]}>{word[-2:]}"


class Grammar:
    """A PCFG of treebank trees, as arrays: rules in the order of their labels."""

    def __init__(self, read: Sequence[Tree]):
        frequency = Counter(word for tree in read for word in tree.words)
        self.known = {word for word, count in frequency.items() if count > RARE}
        binary, lexical, roots = Counter(), Counter(), Counter()
        for tree in (tree for tree in read if tree.words):
            root = collapsed(nested(tree))
            roots[root[0]] += 1
            for rule in rules(root):
                if len(rule) == 3:
                    binary[rule] += 1
                    continue
                label, word = rule[0], tree.words[rule[1]]
                lexical[label, self.token(word)] += 1
                if word not in self.known:
                    lexical[label, ""] += 1  # of words with a form that training lacks
        total = Counter()
        for rule, count in (binary + lexical).items():
            total[rule[0]] += count
        self.labels = sorted(total)
        number = {label: i for i, label in enumerate(self.labels)}
        ordered = sorted(binary)
        self.label_R, self.left_R, self.right_R = np.array(
            [[number[x] for x in rule] for rule in ordered]
        ).T
        share = [binary[rule] / total[rule[0]] for rule in ordered]
        self.log_R = np.log(np.array(share, np.float32))
        self.parents, self.starts = np.unique(self.label_R, return_index=True)
        self.lexicon = collections.defaultdict(lambda: np.full(len(total), -np.inf, np.float32))
        for (label, token), count in lexical.items():
            self.lexicon[token][number[label]] = np.log(count / total[label])
        self.log_roots = np.full(len(total), -np.inf, np.float32)
        for label, count in roots.items():
            self.log_roots[number[label]] = np.log(count / roots.total())

    def token(self, word: str) -> str:
        return word if word in self.known else form(word)

    def parse(self, words: Sequence[str]) -> Tree | None:
        """Returns the likeliest tree; None if the grammar has no tree."""
        n = len(words)
        chart = np.full((n, n + 1, len(self.labels)), -np.inf, np.float32)  # [start, stop, label]
        for i, token in enumerate(map(self.token, words)):
            chart[i, i + 1] = self.lexicon[token if token in self.lexicon else ""]
        for length in range(2, n + 1):
            for i in range(n - length + 1):
                best = self.over_splits(chart, i, i + length, slice(None)).max(axis=0)
                chart[i, i + length, self.parents] = np.maximum.reduceat(best, self.starts)
        log_trees = chart[0, n] + self.log_roots
        if log_trees.max() == -np.inf:
            return None
        constituents, waiting = [], [(0, n, int(log_trees.argmax()))]
        while waiting:  # depth-first, so constituents are in the order of their brackets
            i, j, label = waiting.pop()
            parts = self.labels[label].split("+")
            if not parts[0].startswith("@"):
                kept = parts if j - i > 1 else parts[:-1]  # a word's last part is its tag
                constituents += [Constituent(x, i, j) for x in kept if x != "TOP"]
            if j - i > 1:
                chosen = np.flatnonzero(self.label_R == label)
                scores = self.over_splits(chart, i, j, chosen)
                split, rule = divmod(int(scores.argmax()), len(chosen))
                k, rule = i + 1 + split, chosen[rule]
                waiting += [(k, j, int(self.right_R[rule])), (i, k, int(self.left_R[rule]))]
        return Tree(tuple(words), (UNTAGGED,) * n, tuple(constituents))

    def over_splits(
        self, chart: np.ndarray, i: int, j: int, chosen: slice | np.ndarray
    ) -> np.ndarray:
        """Returns the log probability of each split of words i to j - 1 by each chosen rule."""
        left = chart[i, i + 1 : j][:, self.left_R[chosen]]
        right = chart[i + 1 : j, j][:, self.right_R[chosen]]
        return left + right + self.log_R[chosen]


def right_branching(tree: Tree) -> Tree:
    """Returns an S over all words, and an NP over the words from each position to the last."""
    n = len(tree.words)
    inner = (Constituent("NP", i, n) for i in range(1, n - 1))
    return Tree(tree.words, (UNTAGGED,) * n, (Constituent("S", 0, n), *inner))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="of train.trees and dev.trees")
    parser.add_argument(
        "--trees", type=Path, nargs="*", default=[], help="files that runs have written"
    )
    parser.add_argument("--longest", type=int, default=30, help="words that the PCFG parses")
    parser.add_argument("--sentences", type=int, default=None, help="the first of dev.trees")
    arguments = parser.parse_args()
    load = lambda split: treebank.load(split, directory=arguments.folder, key=split).trees
    grammar = Grammar(load("train.trees"))
    gold = load("dev.trees")[: arguments.sentences]
    print(
        f"{len(grammar.label_R):,} rules, {len(grammar.labels):,} labels, {len(gold):,} sentences"
    )
    is_short = [0 < len(tree.words) <= arguments.longest for tree in gold]

    def report(name: str, parsed: Sequence[Tree | None]) -> None:
        every = [*zip(parsed, gold, strict=True)]
        short = [pair for pair, chosen in zip(every, is_short, strict=True) if chosen]
        for which, pairs in ((f"up to {arguments.longest} words", short), ("all", every)):
            if all(tree is not None for tree, _ in pairs):
                scores = evalb.score(
                    *(map(trees.to_text, side) for side in zip(*pairs, strict=True))
                )
                shown = ", ".join(f"{key} {value:.2f}" for key, value in scores.items())
                print(f"{name}, {which} ({len(pairs):,}): {shown}")

    report("right-branching", [*map(right_branching, gold)])
    parsed, pairs = [], zip(gold, is_short, strict=True)
    for tree, chosen in progress.progress(pairs, "parse", total=len(gold)):
        parsed.append((grammar.parse(tree.words) or right_branching(tree)) if chosen else None)
    report("PCFG", parsed)
    for file in arguments.trees:
        lines = file.read_text("utf-8").split("\n")[: len(gold)]
        report(str(file), [*map(trees.from_text, lines)])


if __name__ == "__main__":
    main()
