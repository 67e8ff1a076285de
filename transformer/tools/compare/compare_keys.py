"""The keys that only --mode=compare reads."""

from ml_collections import ConfigDict


def keys() -> ConfigDict:
    config = ConfigDict()
    config.compare = ConfigDict()
    config.compare.set = ""  # a test set's name; "": the test set that was evaluated last
    config.compare.page = "compare.html"  # the file to write, in the current folder; "": none
    # An .svg of BLEU by sentence length, for a document; "": none.
    config.compare.picture = ""
    config.compare.sentences = 20  # to show: those on which the runs differ most
    config.compare.resamples = 1000  # of the bootstrap, for p-values and 95 % intervals
    return config
