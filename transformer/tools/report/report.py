"""--mode=report: a page of a run, with its curves, scores, sentences and config, in one file."""

from pathlib import Path

from ml_collections import ConfigDict

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


def report(config: ConfigDict, workdir: Path) -> None:
    """Writes WORKDIR/report.html, and its path to standard output."""
    file = workdir / "report.html"
    page.check_writable(file, "--mode=report")
    shown = run.read(config, workdir)
    with progress.waiting("scores and their intervals"):
        made = [make(shown) for make in SCORES]
    with progress.waiting("attention, beam and positions"):
        loaded = inside.load(shown)
        made += [make(loaded) for make in INSIDE] if loaded else [inside.missing(shown)]
    made += [make(shown) for make in SETTINGS]
    sections = [section for section in made if section]
    text = page.html(workdir.resolve().name, sections, summary.headline(shown))
    # A damaged text may have half a character, which is replaced.
    paths.write_file(file, text.encode("utf-8", "replace"))
    print(file, flush=True)
