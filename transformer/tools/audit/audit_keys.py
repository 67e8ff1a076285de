"""The keys that only --mode=audit reads."""

KEYS = {
    "audit.page": "audit.html",  # the file to write, in the current folder; "": none
    "audit.lines": "",  # a file for all faulty pairs: split, line, faults, source, target
    # A folder for a copy of the splits, of which train lacks the pairs that have one of the faults
    # in `drop`; it gets dropped.tsv, too. "": no copy.
    "audit.clean": "",
    # The faults for which a pair is left out of the copy (docs/auditing.md lists all).
    "audit.drop": "blank,misaligned,broken,tags,script,swapped,language,copied,length,duplicate,"
    "overlap",
}
