"""Summaries: their score. rouge.py has ROUGE of texts in any language.

A model that writes summaries is one of translation, from a text to a shorter one; see
configs/summaries.py. `config.evaluate.scores` names what else than BLEU they are scored by.
"""
