"""Meshes, shardings, the compiled training step and collectives: many devices, many processes.

Read layout.py (mesh and shardings, also for evaluation and decoding on one process's devices),
parallel_step.py (compiling a training step, sharding its batch), processes.py (starting, barriers,
sharing work, signals).

All processes must make *collective* calls in the same order. Otherwise they wait for each other
forever. Collective are

* in processes.py: `connect`, `first_process_first`, `gather_shares`, `all_gather`;
* in parallel_step.py: the step that `compile_step` returns, and the function of `make_any_process`;
* in layout.py: `gather_params`.

All other functions are local. `connect` must be called before the first use of JAX's devices.
"""
