"""What a user sees of a run: logs, progress, results, warnings, profiles; the process's settings.

Read log.py (metrics.jsonl and TensorBoard), early_stopping.py, progress.py (progress bars and
lines), anomalies.py (non-finite updates, jumps of the loss), results.py (scores of a test set),
process.py (settings of the allocator and of XLA), memory.py (out-of-memory errors, what the process
keeps), devices.py (peak FLOP/s and memory of hardware), trace.py (profiles).

Creating a `Log` and calling `results.log_final` are collective: all processes have to do so
together. Everything else is local. Of several processes, process 0 writes; standard output is for
results only, all else goes to standard error by `logging`.
"""
