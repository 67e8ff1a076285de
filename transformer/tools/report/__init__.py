"""--mode=report: writes one HTML page that shows a run.

A section is a function (run) -> Section, or None where it does not apply to the task; report.py
lists them in their order: summary.py, predictions.py (with pictures.py, gallery.html, gallery.css),
sampled_texts.py (sampled_texts.html, sampled_texts.css), and those of tools/pages/. inside.py loads
the trained model for the sections that look inside it, functions (inside) -> Section: guesses.py,
attention_section.py (drawn by attention_view.py: attention.html, attention.css, attention.js),
image_attention.py (image_attention.html, image_attention.css, image_attention.js), beam.py (whose
search step by step is in beam_path.py), position_section.py. inline.py shows two of them in a
notebook. Where the workdir lacks something, the
section names the command that makes it. Sections read the config, as modes do.
"""
