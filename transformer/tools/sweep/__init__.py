"""--mode=sweep: trains a list of configs with several seeds each, and makes one table of them.

Read sweep_file.py (the file of rows and seeds -> runs, each a command line), children.py (the runs'
processes and devices), outcomes.py (results, with p-values against the first row by
--mode=compare), sweep_page.py (tables and page), sweep.py (the mode; its keys are in
sweep_keys.py).
"""
