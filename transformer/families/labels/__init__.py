"""What classifiers of anything share.

Read classifiers.py (loss, accuracy, F1), class_names.py (vocabulary/labels.txt) and classify.py
(--mode=classify). texts/ and images/ import it.
"""
