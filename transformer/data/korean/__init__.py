"""A generated Korean-English corpus: words (lexicon.py) and sentences of them (grammar.py)."""
