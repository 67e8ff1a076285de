"""The keys that only --mode=align reads."""

KEYS = {
    "attention.layer": [0, "at least 0"],  # decoder layer to align by, from 1; 0: mean of all
    "attention.head": [0, "at least 0"],  # head to align by, from 1; 0: mean of all
}
