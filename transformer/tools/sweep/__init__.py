"""--mode=sweep: trains a list of configs with several seeds each, and makes one table of them.

Read sweep_file.py (the file of rows and seeds -> runs, each a command line), slots.py (how many
runs at once, and the device of each), children.py (the processes), outcomes.py (what the runs have
left), p_values.py (against the first row, by --mode=compare), sweep_tables.py, sweep_page.py,
sweep.py (the mode; its keys are in sweep_keys.py).
"""
