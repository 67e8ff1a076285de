"""--mode=compare: runs side by side on one test set.

Read kinds.py (what can be compared of which results), comparison.py (values), significance.py
(p-values, intervals), comparison_tables.py, comparison_page.py, compare.py (the mode; its keys are
in compare_keys.py).
"""
