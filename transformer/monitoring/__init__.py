"""What a person sees of a run: the log, the progress bar, results, anomalies, profiles.

Read log.py (metrics.jsonl and TensorBoard), progress.py, anomalies.py, results.py, memory.py,
devices.py (peak FLOP/s), trace.py.
"""
