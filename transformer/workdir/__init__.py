"""What the folder of a run holds besides its checkpoints.

Read config_files.py (loads config files), key_tables.py (keys, types and rules), saved_config.py
(config.json, and what a resumed run may change), log.py (metrics.jsonl and TensorBoard),
results.py (scores of a test set: evaluations.jsonl, evaluation/).

Creating a `Log` and calling `results.log_final` are *collective*: all processes have to do so
together. Everything else is local. Of several processes, process 0 writes; standard output is for
results only, all else goes to standard error by `logging`.
"""
