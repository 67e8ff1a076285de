"""Scores of summaries: rouge.py has ROUGE for any language, by `config.evaluate.scores`.

A translation model writes summaries, from a text to a shorter text; see configs/summaries.py.
"""
