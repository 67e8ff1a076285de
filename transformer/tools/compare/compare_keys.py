"""The keys that only --mode=compare reads."""

KEYS = {
    "compare.set": "",  # a test set's name; "": the one evaluated last
    "compare.page": "compare.html",  # file to write, relative to the current folder; "": none
    "compare.sentences": [20, "at least 0"],  # shown, those with the largest differences first
    # Bootstrap resamples, for p-values and 95 % intervals.
    "compare.resamples": [1000, "at least 100"],
}
