"""Other models and tasks than the paper's. Each is a folder that imports the core and itself.

A family holds its models, data, tasks and modes; nothing else but its lines in registry.py and its
configs knows it, so that it can be deleted. texts/ and images/ share labels/, and language_model/
imports sampling/. Four have no model: mixers/ and parts/, which the boxes of figure 1 take,
kernels/, faster forms of what the core computes, and sampling/, other ways to decode.
"""
