"""The Vision Transformer, a classifier of images.

Read vision.py and patches.py (the model), image_corpora.py (loading a split), image_files.py (your
own files), images.py (the arrays of a batch), image_classification.py (the task).
"""
