"""--mode=compare: compares runs on one test set, side by side.

Read kinds.py (how each kind of result is scored again), comparison.py (values), significance.py
(p-values, intervals), comparison_tables.py, comparison_page.py, compare.py (the mode; its keys are
in compare_keys.py).
"""
