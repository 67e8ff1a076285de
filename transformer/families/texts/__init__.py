"""Encoder-only models of texts: classifiers, and masked language models that they start from.

Read text_encoder.py (the model), labelled_text.py (the corpus), texts.py (the arrays
of a batch), classification.py and masked_language.py (the tasks); then decomposable.py (Parikh et
al. 2016), a classifier of two texts.
"""
