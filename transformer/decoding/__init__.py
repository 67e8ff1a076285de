"""A model -> text: beam search, sampling, minimum Bayes risk.

Read beam_search.py (with top_k.py, bounds.py) and sampling.py (pure functions from a step function
to ids), compiled.py (which of them are jitted, with which static arguments), shapes.py (rounding to
few static shapes), parts.py (what is searched, divided into batches), batch_decoder.py (batches
that shrink as sentences finish), workers.py (its threads), mbr.py, long_lines.py (lines split and
joined), options.py (checks of config.decode), translator.py (text in, text out).

Functions here take the model as a value with the methods `encode`, `prepare`, `step`, `reorder` and
`grow` (transformer/models/__init__.py), and its params, on one device or replicated on the devices
of one process. Memory and cache are any pytrees with leaves [B, ...]. Nothing here is collective:
each process decodes its own lines.
"""
