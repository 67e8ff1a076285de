"""--mode=compare: compares runs on one test set, side by side.

Read evaluated.py (the lines that an evaluation saved), kinds.py (scores of each kind of result,
with p-values and intervals), comparison.py (values), comparison_page.py (tables and page),
compare.py (the mode; its keys are in compare_keys.py).
"""
