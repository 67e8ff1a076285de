"""Faster forms of what models/kernels.py has in plain form: config.kernels.

`tuned.py` (the default) has the forms that CPUs, GPUs and TPUs need to be fast, and `products.py`
its matrix products; `cudnn.py` adds attention by one kernel of NVIDIA GPUs, for training.
docs/performance.md and docs/scaling.md have the measurements. Within
`jax.lax.platform_dependent` each platform compiles its own form only. A set of your own is one
more `Kernels`, and a line in registry.KERNELS.
"""
