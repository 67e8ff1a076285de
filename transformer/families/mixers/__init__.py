"""Token mixers that can replace self-attention, by config.model.mixer.

transformer/models/boxes.py has the interface of a mixer. Start from average.py, the smallest.
grouped_query.py and local.py are self-attention with fewer keys. convolution.py and
light_convolution.py (lightweight and dynamic) are convolutions, on top of shifts.py. recurrence.py
(LSTM) is a recurrent layer as in the paper's table 1. gated_linear.py and state_space.py are linear
recurrences; chunked_scan.py computes many of their positions at once.
"""
