"""One device -> many, one process -> many: meshes, shardings, the compiled step, collectives.

Read layout.py (mesh and shardings), step.py (a training step on them), inference.py (decoding on
one process's devices), processes.py (several processes).

*Collective*, that is, to be called by all processes in the same order: everything in processes.py
but `is_first`, `my_share` and `stop_signals`; `gather_params`, and calling a compiled step.
"""
