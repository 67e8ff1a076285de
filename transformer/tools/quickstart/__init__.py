"""Generates the quickstart's corpus, Korean-English.

Read lexicon.tsv (the words), lexicon.py (which reads them), morphology.py (their forms), phrases.py
(persons and things) and grammar.py (sentences, and the corpus, made in memory).
"""
