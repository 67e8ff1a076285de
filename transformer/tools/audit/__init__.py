"""--mode=audit: what is wrong with sentence pairs, read before a model is trained on them.

Read line_measures.py first (one pass over the text, raw_pairs.py, which leaves a few numbers of
each line), with scripts.py (scripts, invisible characters, broken encodings, tags) and languages.py
(which language a line is in). From these numbers follow the faults of each pair (faults.py), the
pairs that are there twice (repeats.py) and the runs of misaligned lines (alignment.py). cleaning.py
writes a copy without the faulty lines, audit_page.py shows them; audit.py is the mode, whose keys
are in audit_keys.py.

Text is never held in memory: a pair takes about a hundred bytes, so that WMT's 4.5 million fit into
half a gigabyte.
"""
