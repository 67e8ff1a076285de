"""Makes short passages of long ones by their trees, and scores models that learn to do so.

    python -m benchmarks.summaries make TREES FOLDER
    python launch.py --config=configs/summaries.py --config.data.directory=FOLDER
    python -m benchmarks.summaries score FOLDER WORKDIR WORKDIR ...

TREES holds train.trees.xz and dev.trees.xz, Penn trees of articles, one a line: those of the
Colorado Richly Annotated Full-Text corpus (github.com/UCDenver-ccp/CRAFT), article by article.
FOLDER gets train, validation and test, each a file `text` and a file `summary`, a line of both for
three sentences in a row (--sentences). Each sentence's summary is what is left without parentheses,
citations, what stands before the subject, relative clauses and participles, adjuncts of time,
place, manner and purpose, and all but the first of coordinated clauses or verb phrases, much as
Hedge Trimmer has it (Dorr, Zajic and Schwartz 2003). So it is what a rule says, not what a person
would say: a model, which sees no tree, has to find the core of each sentence, to copy it, and to
say it once. An article is in one split.

The last command prints a line for the references, the lead baseline, each run, and the difference
of each further run from the first. The baseline is the first k words of a text, with the k that is
best on validation. The columns are ROUGE-1, -2 and -L, the percentage of an output's trigrams that
are repeated, and the percentage of outputs whose first word is not in the text. All have 95 %
intervals.
"""

import argparse
import lzma
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from transformer.families.summaries import rouge
from transformer.tools.pages import measures

WORDS = range(10, 51)  # of a sentence
LEADS = range(10, 101, 5)  # words of a text that may be its lead
LONGEST = 0.8  # summary, of its sentence's words
SHORTEST = 4  # words of a summary
VALIDATION = 3  # articles, the last of train.trees
COLUMNS = (*rouge.NAMES, "repeated trigrams", "first word is new")
ADJUNCTS = {"TMP", "LOC", "MNR", "PRP", "DIR", "ADV", "EXT"}  # function tags

Tree = list  # [label, child, ...], or [tag, word]


def parse(line: str) -> Tree:
    """Returns the tree of a line `( (S (NP (NN x)) ...) )`."""
    stack = [[]]
    for token in re.findall(r"[()]|[^\s()]+", line):
        if token == "(":
            stack.append([])
        elif token == ")":
            tree = stack.pop()
            stack[-1].append(tree)
        else:
            stack[-1].append(token)
    return stack[0][0][0]


def words(tree: Tree) -> list[str]:
    """Returns the words of a tree; a trace is none."""
    if isinstance(tree[1], str):
        return [] if tree[0] == "-NONE-" else [tree[1]]
    return [word for child in tree[1:] for word in words(child)]


def category(tree: Tree) -> str:
    """Returns NP of NP-SBJ-1."""
    return re.split("[-=]", tree[0])[0]


def tags(tree: Tree) -> set[str]:
    """Returns {SBJ, 1} of NP-SBJ-1."""
    return {*re.split("[-=]", tree[0])[1:]}


def trimmed(tree: Tree) -> Tree:
    """Returns the tree without what the module's docstring names."""
    label, *children = tree
    if isinstance(children[0], str):
        return tree
    kind = category(tree)
    alike = [i for i, child in enumerate(children) if category(child) == kind]
    if kind in ("S", "VP") and len(alike) > 1 and any(x[0] in ("CC", ":") for x in children):
        children = children[: alike[0] + 1] + [x for x in children if x[0] == "."]
    subject = next((i for i, child in enumerate(children) if "SBJ" in tags(child)), 0)
    needed = [x for i, x in enumerate(children) if is_needed(x, kind, before=i < subject)]
    return [label, *map(trimmed, needed)] if needed else ["-NONE-", ""]


def is_needed(tree: Tree, parent: str, *, before: bool) -> bool:
    """Returns whether a child of `parent` stays; `before`: it stands before the subject."""
    if isinstance(tree[1], str):
        return True
    kind = category(tree)
    return not (
        kind in ("PRN", "CIT", "LST")
        or (parent == "NP" and kind in ("SBAR", "RRC", "VP"))
        or (before and kind in ("PP", "ADVP", "S", "SBAR"))
        or (tags(tree) & ADJUNCTS and not tags(tree) & {"PRD", "SBJ"})
    )


def summary(tree: Tree) -> list[str]:
    """Returns the words of the trimmed tree, without parentheses and commas that are left over."""
    kept, depth = [], 0
    for word in words(trimmed(tree)):
        depth = max(0, depth + {"-LRB-": 1, "-RRB-": -1}.get(word, 0))
        if depth or word == "-RRB-" or (word in ",:;" and (not kept or kept[-1] in ",:;")):
            continue
        if word == "." and kept and kept[-1] in ",:;":
            kept.pop()
        kept.append(word)
    return kept


def articles(file: Path) -> Iterator[list[tuple[str, str]]]:
    """Yields the pairs (sentence, summary) of each article."""
    pairs = []
    for tree in map(parse, lzma.decompress(file.read_bytes()).decode().splitlines()):
        if tree[0] == "TITLE" and pairs:
            yield pairs
            pairs = []
        if tree[0] == "CAPTION" and len(tree) == 2:
            tree = tree[1]
        if category(tree) != "S":
            continue
        long, short = words(tree), summary(tree)
        if len(long) in WORDS and SHORTEST <= len(short) <= LONGEST * len(long):
            text = " ".join(long).replace("-LRB-", "(").replace("-RRB-", ")")
            pairs.append((text, " ".join(short)))
    yield pairs


def passages(pairs: list[tuple[str, str]], count: int, stride: int) -> Iterator[tuple[str, str]]:
    """Yields `count` pairs of an article as one text and one summary, and those `stride` on."""
    for i in range(0, len(pairs) - count + 1, stride):
        texts, summaries = zip(*pairs[i : i + count], strict=True)
        yield " ".join(texts), " ".join(summaries)


def make(trees: Path, folder: Path, sentences: int) -> None:
    """Writes the files of the three splits."""
    train, test = ([*articles(trees / f"{x}.trees.xz")] for x in ("train", "dev"))
    splits = {"train": train[:-VALIDATION], "validation": train[-VALIDATION:], "test": test}
    folder.mkdir(parents=True, exist_ok=True)
    seen = {}
    for split, part in reversed(splits.items()):
        # A sentence that is in a later split, too, is left out of an earlier one.
        part = [[x for x in article if x[0] not in seen] for article in part]
        seen |= {text: short for article in part for text, short in article}
        # Passages to train on overlap, to have many; those to score do not, to be independent.
        stride = 1 if split == "train" else sentences
        pairs = dict(x for article in part for x in passages(article, sentences, stride))
        for side, lines in (("text", pairs), ("summary", pairs.values())):
            text = "".join(f"{line}\n" for line in lines)
            (folder / f"{split}.{side}").write_text(text, encoding="utf-8")
            length = len(text.split()) / len(pairs)
            print(
                f"{split}.{side}: {len(pairs):,} lines of {length:.1f} words, {len(part)} articles"
            )


def lead(text: str, count: int) -> str:
    """Returns the first `count` words."""
    return " ".join(text.split()[:count])


def repeated(text: str) -> float:
    """Returns the share of a text's trigrams that were in it before, in percent."""
    tokens = text.split()
    trigrams = [*zip(tokens, tokens[1:], tokens[2:], strict=False)]
    return 100 * (1 - len({*trigrams}) / len(trigrams)) if trigrams else 0.0


def scores(hypotheses: list[str], references: list[str], texts: list[str]) -> np.ndarray:
    """Returns the COLUMNS of each item, [5, N]."""
    items = rouge.item_scores(hypotheses, references, rouge.words)
    pairs = zip(hypotheses, texts, strict=True)
    new = [100.0 * (x.partition(" ")[0] not in text.split()) for x, text in pairs]
    return np.array([*items.values(), [repeated(x) for x in hypotheses], new])


def interval(items_N: np.ndarray) -> str:
    """Returns the mean with the ends of its bootstrap interval."""
    means = items_N[measures.draws(len(items_N), measures.RESAMPLES)].mean(axis=1)
    low, high = measures.percentiles(means)
    return f"{items_N.mean():6.2f} [{low:5.2f}, {high:5.2f}]"


def score(workdirs: list[Path], folder: Path) -> None:
    """Prints a line for the references, the lead baseline, each run and each difference."""
    read = lambda file: file.read_text(encoding="utf-8").splitlines()
    sides = lambda split: [read(folder / f"{split}.{side}") for side in ("text", "summary")]
    texts, summaries = sides("validation")
    leads = lambda texts, count: [lead(text, count) for text in texts]
    by_count = {k: scores(leads(texts, k), summaries, texts)[:3].mean() for k in LEADS}
    best = max(by_count, key=by_count.get)
    texts, summaries = sides("test")
    outputs = {"references": summaries, f"the first {best} words": leads(texts, best)}
    runs = {str(run): read(run / "evaluation" / "test.hypothesis") for run in workdirs}
    outputs |= runs
    items = {name: scores(lines, summaries, texts) for name, lines in outputs.items()}
    first, *others = runs
    table = items | {f"{name} less {first}": items[name] - items[first] for name in others}
    width = max(map(len, table)) + 2
    print(" " * width + "".join(f"{x:24}" for x in COLUMNS) + "words")
    for name, columns in table.items():
        line = f"{name:{width}}" + "".join(f"{interval(x):24}" for x in columns)
        if name in outputs:  # a difference has no words
            line += f"{np.mean([len(x.split()) for x in outputs[name]]):.4}"
        print(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    making = commands.add_parser("make")
    making.add_argument("trees", type=Path, help="the folder of train.trees.xz and dev.trees.xz")
    making.add_argument("folder", type=Path, help="where train.text, train.summary, ... go")
    making.add_argument("--sentences", type=int, default=3, help="of a text")
    making.set_defaults(command=make)
    scoring = commands.add_parser("score")
    scoring.add_argument("folder", type=Path, help="that of `make`")
    scoring.add_argument("workdirs", type=Path, nargs="+", help="evaluated runs on its test set")
    scoring.set_defaults(command=score)
    arguments = vars(parser.parse_args())
    arguments.pop("command")(**arguments)


if __name__ == "__main__":
    main()
