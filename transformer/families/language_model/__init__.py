"""Decoder-only language models: the next token of a text (GPT).

Read language_model.py (the model), characters.py (a vocabulary), streams.py (the arrays of a
batch), language_modelling.py (the task), language_evaluator.py (perplexity per token and word),
continuations.py (samples, also behind the model's context) and generate.py (--mode=generate).
"""
