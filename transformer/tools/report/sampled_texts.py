"""Texts that a language model writes: while it learns, and at the end."""

from collections.abc import Mapping, Sequence

from transformer.errors import UserError
from transformer.tasks import trained, vocabularies
from transformer.tools.pages import page
from transformer.tools.pages.page import Markup, Section
from transformer.tools.pages.run import Run
from transformer.tools.pages.sentences import evenly, shortened

SAMPLES = 3
MOST_TOKENS = 300


def samples(run: Run) -> Section | None:
    """Returns the texts that were written in training after each validation."""
    from transformer.families.language_model import language_evaluator

    if "generate" not in run.config:
        return None
    title, by_step = "Learning to write", {}
    for line in run.of_kind("validation"):
        if written := language_evaluator.read_samples(line.get("samples", "")):
            by_step[line["step"]] = written
    if not by_step:
        return Section(title, ["No text is logged: `--config.evaluate.samples=2` logs two."])
    return Section(
        title, [LEARNING, _boxes({f"step {step:,}": by_step[step] for step in evenly(by_step)})]
    )


LEARNING = "Texts without a prompt, by the same random draws after each validation."


def section(run: Run) -> Section | None:
    """Returns a few texts that a language model writes without a prompt."""
    if "generate" not in run.config:
        return None
    try:
        step, texts = sampled(run)
    except UserError as error:  # such as a workdir without a checkpoint
        return Section("Texts", [f"No text can be sampled: {error}"])
    options = run.config.generate
    about = (
        f"Sampled from the {run.config.evaluate.weights} params, of step {step:,}, at temperature "
        f"{options.temperature:g}. `{run.command('generate')}` goes on "
        "from a prompt of yours."
    )
    return Section("Texts", [about, _boxes({"": texts})])


def sampled(run: Run) -> tuple[int, list[str]]:
    """Returns the newest step of the params, and SAMPLES texts without a prompt."""
    from transformer.families.language_model.continuations import SAMPLING, unprompted

    config, loaded = run.config, trained.load(run.config, run.workdir)
    options = {key: config.generate[key] for key in SAMPLING}
    options["max_tokens"] = min(MOST_TOKENS, options["max_tokens"])
    return loaded.step, unprompted(
        loaded.params,
        SAMPLES,
        model=loaded.model,
        context=config.data.context_length,
        vocabulary=vocabularies.read(run.workdir, config),
        **options,
    )


def _boxes(texts: Mapping[str, Sequence[str]]) -> Markup:
    """Returns a box for each text, below their headings."""
    shown = {heading: list(map(shortened, x)) for heading, x in texts.items()}
    return page.markup("report/sampled_texts", texts=shown)
