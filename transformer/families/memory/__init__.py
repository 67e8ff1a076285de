"""Copying and associative recall: what a model can remember, at lengths that training has and at
longer ones.

Read problems.py (an item, and the arrays of a batch) and memory_task.py (the task, and the accuracy
by length). The model is any decoder-only one of the registry, such as `language_model`.
"""
