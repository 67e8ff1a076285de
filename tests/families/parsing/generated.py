"""Trees of a small grammar, with function tags and traces, in files as a treebank has them."""

import random

RULES = {
    "S": ["NP-SBJ VP .", "PP , NP-SBJ VP ."],
    "NP-SBJ": ["DT NN", "PRP", "NP PP"],
    "NP": ["DT NN", "DT JJ NN"],
    "VP": ["VBZ NP", "VBZ NP PP", "VBZ SBAR-1"],
    "SBAR-1": ["-NONE- S"],
    "PP": ["IN NP"],
}
WORDS = {"DT": "the a", "NN": "cat dog (x)", "PRP": "it", "JJ": "old", "VBZ": "sees says"}
WORDS |= {"IN": "in with", ".": ".", ",": ",", "-NONE-": "0"}


def tree(chosen, label="S", depth=0):
    """A random tree as text in brackets."""
    if label in WORDS:
        word = chosen.choice(WORDS[label].split())
        return f"({label} {word.replace('(', '-LRB-').replace(')', '-RRB-')})"
    # Deep in a tree the first rule, which is the shortest.
    rule = chosen.choice(RULES[label][: None if depth < 6 else 1])
    return f"({label} {' '.join(tree(chosen, x, depth + 1) for x in rule.split())})"


def write(folder, **counts):
    """Writes SPLIT.trees with so many trees, one per line."""
    for seed, (split, count) in enumerate(counts.items()):
        chosen = random.Random(seed)
        lines = [f"( {tree(chosen)} )\n" for _ in range(count)]
        (folder / f"{split}.trees").write_text("".join(lines))
