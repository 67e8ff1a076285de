"""The Python interface: `transformer.load`, `transformer.config` and `transformer.train`.

It does not parse flags, read standard input, handle signals or change the process. A program that
uses it thus lacks launch.py's settings for CPUs: the allocator, computing in the calling thread,
and a scheduler for little memory (runtime/startup.py). Together they are worth a quarter of a small
training step, and nothing on an accelerator.

Read loading.py (a workdir -> a model; training), trained_models.py (a class for each task), then
calls.py (shared functions).
"""
