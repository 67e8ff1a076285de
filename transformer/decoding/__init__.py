"""A model -> text, by beam search.

Read beam_search.py (one step, a pure function from logits to ids: which tokens may follow, which
continuations are the likeliest, when a search ends), then compiled.py (the jitted stages of a
search, with which static arguments; its threads), batch_decoder.py (batches that shrink as
sentences finish) with batch_sizes.py (few static shapes), translator.py (text in, text out: chunks
of lines, over-long lines in parts; checks of config.decode). methods.py has what another method
than beam search must give, as those of families/sampling do.

Functions here take the model as a value with the methods `encode`, `prepare` and `step`
(transformer/models/__init__.py), and its params, on one device or replicated on the devices
of one process. Memory and cache are any pytrees with leaves [B, ...]. Nothing here is collective:
each process decodes its own lines.
"""
