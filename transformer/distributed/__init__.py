"""Meshes, shardings, the compiled training step and collectives: many devices, many processes.

Read layout.py (mesh and shardings, and params and rows for evaluation and decoding on one process's
devices), parallel_step.py (compiling a training step, sharding its batch), processes.py (starting,
barriers, sharing work, signals).

*Collective* calls must be made by all processes in the same order, or the processes that make them
wait forever for the others:

* in processes.py: `connect`, `first_process_first`, `gather_shares`, `all_gather`;
* in parallel_step.py: the step that `compile_step` returns, and the function of `make_any_process`;
* in layout.py: `gather_params`.

Everything else here is local: a process may call it alone. Functions may assume that `connect` was
called before JAX's devices were first used.
"""
