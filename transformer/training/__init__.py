"""The training loop and one update.

Read loop.py (the loop, early stopping), start.py (the state, restored or random; a dry run),
update.py (one update), optimizer.py (optax and the schedule), meters.py (logging, warnings of
anomalies). workdir/log.py describes how a resumed run truncates the log.

Functions know the task only by its `Task` record. `loop.run` is collective: all processes make the
same calls in the same order, and agree to validate, save or stop before they do so.
"""
