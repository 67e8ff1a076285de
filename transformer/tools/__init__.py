"""Tools that inspect, convert, compare or serve runs. Each is a folder that imports the core.

A tool may also import tools/pages/, and a family inside functions. Only its lines in registry.py
name it, so that it can be deleted.
"""
