"""The keys that only --mode=audit reads."""

KEYS = {
    "audit.page": "audit.html",  # the file to write, in the current folder; "": none
    "audit.lines": "",  # a file for all faulty pairs: split, line, faults, source, target
    # A folder for a copy of the splits and dropped.tsv; its train lacks the pairs with a fault in
    # `drop`. "": no copy.
    "audit.clean": "",
    # The faults whose pairs are left out of the copy (docs/auditing.md lists all).
    "audit.drop": "blank,misaligned,broken,tags,script,swapped,language,copied,length,duplicate,"
    "overlap",
}
