"""Faster forms of the functions in models/kernels.py, chosen by config.kernels.

`tuned.py` (the default) has fast forms for CPUs, GPUs and TPUs, and logs which dtype is faster on
this CPU. `products.py` has its matrix products. `cudnn.py` adds fused attention of NVIDIA GPUs, for
training, and `residual.py` their sum, dropout and LayerNorm in one kernel. docs/performance.md and
docs/scaling.md have the measurements. With `jax.lax.platform_dependent` each platform compiles only
its own form. For a set of your own, add a `Kernels` and a line in registry.KERNELS.
"""
