"""Generates the quickstart's corpus, Korean-English.

Read lexicon.tsv (words), lexicon.py (reads them), morphology.py (inflection), phrases.py (noun
phrases) and grammar.py (sentences, and the corpus, generated in memory).
"""
