"""A model -> text: beam search, sampling, minimum Bayes risk.

Read beam_search.py and sampling.py (the search, pure), compiled.py (what of it is jitted),
batch_decoder.py (batches that shrink as sentences end), shapes.py, mbr.py, translator.py (text in,
text out). A model is a value here: `encode`, `prepare`, `step`, `reorder`, `grow`.
"""
