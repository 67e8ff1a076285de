"""Other models and tasks than the paper's. Each is a folder that imports the core and itself.

A family holds its models, data, tasks and modes; nothing else but its lines in registry.py and its
configs knows it, so that it can be deleted. texts/ and images/ share labels/. kernels/ has no
model, but faster forms of what the core computes.
"""
