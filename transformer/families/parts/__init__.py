"""Parts of the boxes of figure 1 that the paper does not have; models/boxes.py says what a part is.

Positions: `rotary.py`, `distances.py` (Shaw et al.), `biases.py` (ALiBi, T5) and
`other_positions.py` (of the input). `scores.py` has other score functions, `projections.py` a mixer
with fewer projections than three, `networks.py` other feed-forward networks, `experts.py` a mixture
of them; `norms.py` and `residuals.py` have other ways to keep activations in range. A part of your
own is a file here, and a line in registry.PARTS.
"""
