"""--mode=compare: runs side by side on one test set.

Read comparison.py (values), significance.py (p-values, intervals), comparison_tables.py,
comparison_page.py, compare.py (the mode; its keys are in compare_keys.py).
"""
