"""Whether the checkpoints of a run are as they were saved: `verify.py`."""
