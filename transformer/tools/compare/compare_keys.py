"""The keys that only --mode=compare reads."""

KEYS = {
    "compare.set": "",  # a test set's name; "": the test set that was evaluated last
    "compare.page": "compare.html",  # the file to write, in the current folder; "": none
    "compare.sentences": [20, "at least 0"],  # to show: those on which the runs differ most
    # Of the bootstrap, for p-values and 95 % intervals.
    "compare.resamples": [1000, "at least 100"],
}
