"""Encoder-only models of texts: classifiers, and masked language models to pre-train them.

Read text_encoder.py (the model), labelled_text.py (the corpus), texts.py (the arrays of a batch),
classification.py and masked_language.py (the tasks), then decomposable.py, a classifier of two
texts (Parikh et al. 2016).
"""
