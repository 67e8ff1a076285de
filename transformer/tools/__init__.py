"""What looks at a run, or leads in and out. Each is a folder that imports the core and itself.

A tool may import tools/pages/ too, and a family inside functions. Nothing else but its lines in
registry.py knows it, so that it can be deleted.
"""
