"""Decoder-only language models (GPT), which predict the next token of a text.

Read language_model.py (the model), characters.py (a vocabulary), streams.py (the arrays of a
batch), language_modelling.py (the task), language_evaluator.py (perplexity per token and word),
continuations.py (samples, also beyond the model's context) and generate.py (--mode=generate).
"""
