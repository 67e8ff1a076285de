"""The checkpoints of a run: saves, keeps, restores and averages them.

Read store.py (one folder of checkpoints: Orbax and checksums), manager.py (the steps to keep and to
resume from, and whether a run may resume), weights.py (params to evaluate with or to start another
run from, and their paths, 'encoder/layers_0/...').

All processes must see the same workdir. All processes must call *collective* functions in the same
order. Collective are the methods of `CheckpointStore` and `Checkpoints`, unless their docstring
says otherwise, and `weights.best_step`, `weights.load` and `weights.load_init_from`. Other
functions only read the disk.
"""
