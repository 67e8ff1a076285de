"""The keys that only --mode=audit reads."""

from ml_collections import ConfigDict


def keys() -> ConfigDict:
    config = ConfigDict()
    config.audit = ConfigDict()
    config.audit.page = "audit.html"  # the file to write, in the current folder; "": none
    config.audit.lines = ""  # a file for all faulty pairs: split, line, faults, source, target
    # A folder for a copy of the splits, of which train lacks the pairs that have one of the faults
    # in `drop` (docs/auditing.md lists all); it gets dropped.tsv, too. "": no copy.
    config.audit.clean = ""
    faults = "blank,misaligned,broken,tags,script,swapped,language,copied,length,duplicate,overlap"
    config.audit.drop = faults  # for which a pair is left out of the copy
    return config
