"""Configs, logs and results: the files of a workdir besides its checkpoints.

Read config_files.py (loads config files), key_tables.py (keys, types and rules), saved_config.py
(config.json, and the keys that a resumed run may change), log.py (metrics.jsonl and TensorBoard),
results.py (scores of a test set: evaluations.jsonl, evaluation/).

Creating a `Log` and calling `results.log_final` are *collective*: all processes do so together.
All other functions are local. Only process 0 writes. Standard output is for results; `logging`
writes to standard error.
"""
