"""Reports: pictures and pages from what runs have left in their workdirs.

Read page.py first: a page is a title and sections, a section is text, tables and plots (Vega-Lite
specifications, plain dicts), and the page is one HTML file that works offline. run.py reads a
workdir, measures.py has the names and intervals of scores. Then a file a kind of section:
summary.py, curves.py, sentences.py, lengths.py, predictions.py (with pictures.py), texts.py,
settings.py. A section is a function (run) -> Section, or None where it does not apply to the task;
tools/report/report.py lists them in their order. inside.py loads the trained model for the sections that
look inside it, functions (inside) -> Section: guesses.py, attention.py (drawn by
attention_view.py), image_attention.py, beam.py, positions.py. A section says what the workdir
lacks, with the command that would make it.

Of several runs (tools/compare/compare.py): evaluated.py reads what an evaluation has kept of each line of a
test set, significance.py has the tests, comparison.py compares, with lengths.py for buckets of
sentences; comparison_tables.py and comparison_page.py show it. Of no run at all:
audit_page.py, the faults of sentence pairs.

Unlike the packages before, sections read the config, as modes do.
"""
