"""The training loop and one update.

Read loop.py (the loop, early stopping), start.py (the state, restored or random; a dry run),
update.py (one update), optimizer.py (optax and the schedule), meters.py (what is logged, warnings
of anomalies). Which lines of the log a resumed run cuts and writes again is in workdir/log.py.

Functions know the task only by its `Task` record. `loop.run` is collective: all processes make the
same calls in the same order, and agree on every decision to validate, save or stop before they act
on it.
"""
