"""Translations that are drawn at random, instead of searched for: values of config.decode.method.

Read sampling.py ('sample': a step of ancestral sampling, and its truncation, which language models
use, too), then mbr.py ('mbr': samples ranked by minimum Bayes risk). language_model/ imports it.
"""
