"""The keys that only --mode=rescore reads."""

KEYS = {
    # 'target': log P(hypothesis | source) over the length penalty; 'source': log P(source |
    # hypothesis), of a model of the other direction; 'coverage': how much of the source cross-
    # attention reads.
    "rescore.by": ["target", ("target", "source", "coverage")],
    "rescore.weight": [0.5, "above 0"],  # of the added score; the hypothesis's own has weight 1
}
