"""Modes that score or align given sentence pairs with a translation model.

`score.py` computes the probability of a target, by forced decoding. `rescore.py`, with its keys in
`rescore_keys.py`, ranks n-best lists by it. `align.py`, with its keys in `align_keys.py`, aligns
words by attention weights.
"""
