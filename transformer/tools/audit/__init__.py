"""--mode=audit: looks for faulty sentence pairs before a model is trained on them.

Read line_measures.py first: one pass over the raw text keeps a few numbers per line, computed by
scripts.py (scripts, invisible characters, broken encodings, tags; the language of a line). From
them faults.py finds the faults of each pair, and alignment.py the runs of misaligned lines.
raw_pairs.py reads the text, and writes a copy without faulty lines. audit_page.py has the result of
a split, its table and its section of a page. audit.py is the mode, audit_keys.py has its keys.

The text is not kept in memory. A pair takes about two hundred bytes, so that WMT's 4.5 million
pairs fit into a gigabyte and a half.
"""
