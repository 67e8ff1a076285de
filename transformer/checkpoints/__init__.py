"""The checkpoints of a run: what is saved, kept, resumed from and evaluated.

Read store.py (one folder of checkpoints: Orbax and checksums), manager.py (which steps are kept and
resumed from, and whether a run may resume), weights.py (the params to evaluate with,
or to start another run from, and their paths, 'encoder/layers_0/...').

Functions may assume that all processes see the same workdir. *Collective*, that is, to be called by
all processes in the same order: the methods of `CheckpointStore` and of `Checkpoints` whose
docstrings do not say otherwise, `weights.best_step`, `weights.load` and `weights.load_init_from`.
The other functions only look at the disk.
"""
