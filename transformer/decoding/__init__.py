"""A model -> text: beam search, sampling, minimum Bayes risk.

Read beam_search.py and sampling.py (one step of each, pure functions from logits to ids, and the
ranking of samples by minimum Bayes risk) with next_tokens.py (which tokens may follow, which are
likeliest), compiled.py (the jitted stages of a search, with which static arguments; its threads),
parts.py (what is searched, in batches of few static shapes), batch_decoder.py (batches that shrink
as sentences finish), chunks.py (a text in chunks, over-long lines in parts), translator.py (text
in, text out; checks of config.decode).

Functions here take the model as a value with the methods `encode`, `prepare`, `step`, `reorder` and
`grow` (transformer/models/__init__.py), and its params, on one device or replicated on the devices
of one process. Memory and cache are any pytrees with leaves [B, ...]. Nothing here is collective:
each process decodes its own lines.
"""
