"""What pages share: sections of text, tables and plots -> one HTML file that works offline.

Read page.py (with page.css and page.js): a page is a title and sections, a section is text, tables
and plots (Vega-Lite specifications, plain dicts). run.py reads a workdir, evaluated.py what an
evaluation has kept of each line of a test set; measures.py has the names and intervals of scores.
Then sections that several tools have: curves.py, lengths.py, sentences.py, settings.py.
"""
