"""Code that classifiers of texts and of images share.

Read classifiers.py (loss, accuracy, F1), class_names.py (vocabulary/labels.txt) and classify.py
(--mode=classify).
"""
