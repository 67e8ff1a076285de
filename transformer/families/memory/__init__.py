"""Copying and associative recall: a test of a model's memory at trained and at longer lengths.

Read problems.py (an item, and the arrays of a batch) and memory_task.py (the task, and the accuracy
by length). The model is any decoder-only model of the registry, such as `language_model`.
"""
