"""--mode=report: writes a run's curves, scores, sentences and config as one HTML file."""

from pathlib import Path

from ml_collections import ConfigDict

from transformer.runtime import progress
from transformer.tools.pages import curves, lengths, page, run, sentences, settings
from transformer.tools.report import (
    attention_section,
    beam,
    confidence_section,
    guesses,
    heads_section,
    image_attention,
    inside,
    position_section,
    predictions,
    sampled_texts,
    summary,
)

# In the order of the page: functions (run) -> Section, or None.
SCORES = (
    summary.section,
    curves.section,
    sentences.samples,
    sampled_texts.samples,
    lengths.section,
    sentences.chosen,
    confidence_section.section,
    predictions.section,
    sampled_texts.section,
)
# Functions (inside) -> Section, or None; they need a checkpoint.
INSIDE = (
    guesses.section,
    attention_section.section,
    heads_section.section,
    image_attention.section,
    beam.section,
    position_section.section,
)
NO_MODEL = page.Section("Inside the model", ["There is no complete checkpoint to look into."])
SETTINGS = (settings.section, settings.versions)


def report(config: ConfigDict, workdir: Path) -> None:
    """Writes WORKDIR/report.html, and its path to standard output."""
    # Before minutes of work.
    file = workdir / "report.html"
    page.check_writable(file, "--mode=report")
    shown = run.read(config, workdir)
    with progress.waiting("scores and their intervals"):
        sections = [make(shown) for make in SCORES]
    with progress.waiting("attention, beam and positions"):
        loaded = inside.load(shown)
        sections += [make(loaded) for make in INSIDE] if loaded else [NO_MODEL]
    sections += [make(shown) for make in SETTINGS]
    sections = [section for section in sections if section]
    page.write(file, workdir.resolve().name, sections, summary.headline(shown))
    print(file, flush=True)
