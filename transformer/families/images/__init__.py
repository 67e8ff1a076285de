"""The Vision Transformer, a classifier of images.

Read vision.py and patches.py (the model), image_corpora.py (what can be loaded), image_files.py
(files of your own), images.py (the arrays of a batch), image_classification.py (the task).
"""
