"""--mode=report: one page that shows a run.

A section is a function (run) -> Section, or None where it does not apply to the task; report.py
lists them in their order: summary.py, predictions.py (with pictures.py), sampled_texts.py, and
those of tools/pages/. inside.py loads the trained model for the sections that look inside it,
functions (inside) -> Section: guesses.py, attention_section.py (drawn by attention_view.py, with
attention.css and attention.js), image_attention.py (with image_attention.js), beam.py (whose search
step by step is in beam_path.py), position_section.py. A section says what the workdir lacks, with
the command that would make it. Sections read the config, as modes do.
"""
