"""Sampling instead of beam search: values of config.decode.method.

Read sampling.py ('sample': a step of ancestral sampling, and its truncation, which language_model/
imports), then mbr.py ('mbr': samples ranked by minimum Bayes risk).
"""
