"""What a translation model says of given sentence pairs: modes that translate nothing.

`score.py` has the probability of a target, by forced decoding, and `align.py`, with its keys in
`align_keys.py`, which words are each other's translations, by attention weights.
"""
