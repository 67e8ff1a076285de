"""Parts of other papers for the boxes of figure 1; models/boxes.py has their interfaces.

Positions: `rotary.py`, `distances.py` (Shaw et al.), `biases.py` (ALiBi, T5) and
`other_positions.py` (of the input). `scores.py` has score functions, `projections.py` a mixer with
fewer projections, `networks.py` feed-forward networks, `experts.py` a mixture of experts, and
`norms.py` and `residuals.py` norms and residual connections. For a part of your own, add a file
here and a line in registry.PARTS.
"""
