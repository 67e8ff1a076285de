"""Constituency parsing (paper, section 6.3): from the words of a sentence to its tree.

Read trees.py (a tree, its text and the symbols that a model writes), treebank.py (the corpus),
brackets.py (the vocabulary of symbols), parsing_task.py (the task), evalb.py (the score) and
parse.py (--mode=parse). Configs: configs/parsing.py.
"""
