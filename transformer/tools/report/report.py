"""--mode=report: a page of a run, with its curves, scores, sentences and config, in one file."""

from pathlib import Path

import ml_collections

from transformer.runtime import paths, progress
from transformer.tools.pages import curves, lengths, page, run, sentences, settings
from transformer.tools.report import (
    attention_section,
    beam,
    guesses,
    image_attention,
    inside,
    position_section,
    predictions,
    sampled_texts,
    summary,
)

# In the order of the page: functions (run) -> Section, or None where there is nothing to show.
SCORES = (
    summary.section,
    curves.section,
    sentences.samples,
    sampled_texts.samples,
    lengths.section,
    sentences.chosen,
    predictions.section,
    sampled_texts.section,
)
INSIDE = (  # functions (inside) -> Section or None
    guesses.section,
    attention_section.section,
    image_attention.section,
    beam.section,
    position_section.section,
)
SETTINGS = (settings.section, settings.versions)


def report(config: ml_collections.ConfigDict, workdir: Path) -> None:
    """Writes WORKDIR/report.html, and its path to standard output."""
    paths.check_writable(workdir / "report.html", "--mode=report")
    this = run.read(config, workdir)
    with progress.waiting("scores and their intervals"):
        made = [make(this) for make in SCORES]
    with progress.waiting("attention, beam and positions"):
        model = inside.load(this)
        made += [make(model) for make in INSIDE] if model else [inside.missing(this)]
    made += [make(this) for make in SETTINGS]
    sections = [section for section in made if section]
    text = page.html(workdir.resolve().name, sections, summary.headline(this))
    paths.write_file(workdir / "report.html", text.encode("utf-8", "replace"))
    print(workdir / "report.html", flush=True)
