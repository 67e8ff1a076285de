"""How sure a translation is: --mode=calibrate, and the numbers that translate.confidence adds.

Read confidence.py (a translation -> features, its confidence, and the probability of each word),
reliability.py (learns from features whether a translation is good, and measures that on other
lines), then calibrate.py (validation text -> confidence.json in the workdir), with its keys in
calibrate_keys.py.
"""
