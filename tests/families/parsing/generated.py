"""Trees of a small grammar, in files as a treebank has them, and the config of a tiny run."""

import random

from configs import parsing

RULES = {
    "S": ["NP-SBJ VP .", "PP , NP-SBJ VP ."],
    "NP-SBJ": ["DT NN", "PRP", "NP PP"],
    "NP": ["DT NN", "DT JJ NN"],
    "VP": ["VBZ NP", "VBZ NP PP", "VBZ SBAR"],
    "SBAR": ["-NONE- S-1"],
    "S-1": ["NP-SBJ VP"],
    "PP": ["IN NP"],
}
WORDS = {"DT": "the a", "NN": "cat dog (x)", "PRP": "it", "JJ": "old", "VBZ": "sees says"}
WORDS |= {"IN": "in with", ".": ".", ",": ",", "-NONE-": "0"}


def tree(chosen, label="S", depth=0):
    """A random tree as text in brackets, with function tags and traces."""
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


def config(folder, changes=None):
    """The config of a tiny run on the trees that `write` has written."""
    values = {"compilation_cache": "", "data.directory": str(folder)}
    values |= {"data.data_dir": str(folder / "data"), "data.test": ""}
    values |= {"data.max_length": 96, "data.row_length": 96, "data.batch_tokens": 8 * 96}
    values |= {"vocabulary.size": 290, "model.d_model": 16, "model.d_ff": 24}
    values |= {"model.num_heads": 2, "model.num_layers": 1, "decode.beam_width": 2}
    values |= {"decode.extra_length": 60, "evaluate.samples": 1, "train.log_every": 10}
    made = parsing.get_config("small").copy_and_resolve_references()
    values |= {"data.train": "train.trees", "data.validation": "dev.trees"}
    made.update_from_flattened_dict({**values, **(changes or {})})
    return made
