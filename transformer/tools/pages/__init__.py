"""The pages of several tools: text, tables and plots -> one HTML file that works offline.

Read page.py (with page.html, page.css and page.js): a page is a title and sections, a section is
text, tables and plots (Vega-Lite specifications, plain dicts, with colours from charts.py). run.py
reads a workdir; measures.py has the names and intervals of scores. Sections shared by tools are in
curves.py, lengths.py, sentences.py (sentences.html, sentences.css) and settings.py.
attention_view.py (attention.html, attention.css, attention.js) draws attention, beam_view.py the
steps of a beam search; inline.py shows both in a notebook.
"""
