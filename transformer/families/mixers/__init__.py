"""Token mixers that can be in the place of self-attention: config.model.mixer names them.

transformer/models/boxes.py says what a mixer is. average.py is the smallest and the one to start
from. grouped_query.py and local.py are self-attention with fewer keys. convolution.py and
light_convolution.py (lightweight and dynamic) are the convolutions, on top of shifts.py.
recurrence.py (LSTM) is what the paper's table 1 compares attention with. gated_linear.py and
state_space.py are linear recurrences, of which chunked_scan.py computes many positions at once.
"""
