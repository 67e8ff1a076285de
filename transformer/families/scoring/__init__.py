"""Modes that score or align given sentence pairs with a translation model.

`score.py` computes the probability of a target, by forced decoding. `align.py`, with its keys in
`align_keys.py`, aligns words by attention weights.
"""
