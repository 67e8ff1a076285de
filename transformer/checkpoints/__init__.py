"""What a run leaves on disk, and how it is read again.

Read workdir.py (config.json, vocabulary/), config_files.py (configs, their keys and types),
store.py (Orbax and the checksums of files), manager.py (which steps are kept), weights.py (which
are evaluated).

*Collective*: the methods of `CheckpointStore` and `Checkpoints`, and `weights.load`.
"""
