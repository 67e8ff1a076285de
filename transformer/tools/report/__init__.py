"""--mode=report: writes one HTML page that shows a run.

A section is a function (run) -> Section, or None for a task without it; report.py lists them in
order: summary.py, confidence_section.py, predictions.py (with pictures.py, gallery.html,
gallery.css), sampled_texts.py (sampled_texts.html, sampled_texts.css), and those of tools/pages/.
inside.py loads the trained model for the sections about it, functions (inside) -> Section:
guesses.py, attention_section.py, heads_section.py, image_attention.py (image_attention.html,
image_attention.css, image_attention.js), beam.py, position_section.py. If a file is missing in the
workdir, the section names the command that writes it. Sections read the config, as modes do.
"""
