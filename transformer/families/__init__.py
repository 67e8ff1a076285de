"""Models and tasks beyond the paper's. A family is a folder that imports the core and itself.

It holds models, data, tasks and modes. Only its lines in registry.py and its configs name it, so
that it can be deleted. texts/ and images/ share labels/, and language_model/ imports sampling/.
Four families have no model: mixers/ and parts/ fill the boxes of figure 1, kernels/ has faster
forms of core functions, and sampling/ has other decoding methods.
"""
