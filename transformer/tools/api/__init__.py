"""From Python: `transformer.load`, `transformer.config` and `transformer.train`.

Nothing here parses flags, reads standard input, handles signals or changes the process. So a
program of its own lacks what launch.py sets up for speed on CPUs: the allocator's settings, the
calling thread computing, and a scheduler for little memory (runtime/startup.py); together a quarter
of a small training step, and nothing on an accelerator.

Read loading.py (a workdir -> a model; training), trained_models.py (a class for each task), then
calls.py (what their calls share).
"""
