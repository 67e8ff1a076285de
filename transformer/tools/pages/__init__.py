"""The pages of several tools: text, tables and plots -> one HTML file that works offline.

Read page.py (with page.html, page.css and page.js): a page is a title and sections, a section is
text, tables and plots (Vega-Lite specifications, plain dicts, whose colours are in charts.py).
run.py reads a workdir;
measures.py has the names and intervals of scores. Then sections that several tools share:
curves.py, lengths.py, sentences.py (sentences.html, sentences.css), settings.py. attention_view.py
(attention.html, attention.css, attention.js) draws attention, beam_view.py a beam search, which
it follows step by step; inline.py shows both in a notebook.
"""
