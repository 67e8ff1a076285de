"""Decoding: text from a model, by beam search.

Read beam_search.py first: one step, a pure function from logits to ids (constraints, candidates,
early stopping). selection.py finds the likeliest of all continuations. compiled.py has the jitted
stages of a search, their static arguments and threads. batch_decoder.py has batches that shrink as
sentences finish, with few static shapes (batch_sizes.py). translator.py maps text to text: chunks
of lines, over-long lines in parts, checks of config.decode. methods.py has the interface of other
methods, such as families/sampling.

Functions take a model with the methods `encode`, `prepare` and `step` (models/__init__.py), and
its params, on one device or replicated on the devices of one process. Memory and cache are any
pytrees with leaves [B, ...]. No function is collective: each process decodes its own lines.
"""
