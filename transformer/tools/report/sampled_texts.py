"""Texts that a language model writes: while it learns, and at the end."""

from html import escape

from transformer.errors import UserError
from transformer.tasks import trained
from transformer.tools.pages.page import Markup, Section
from transformer.tools.pages.run import Run
from transformer.tools.pages.sentences import evenly, shortened
from transformer.workdir.workdir import read_vocabulary

SAMPLES = 3
MOST_TOKENS = 300

STYLE = """
.text { margin: 0 0 1.25rem; padding: 0.9rem 1.1rem; border: 1px solid var(--line);
  border-radius: 6px; background: var(--raised); white-space: pre-wrap; overflow-wrap: anywhere;
  max-height: 24rem; overflow-y: auto; }
"""


def samples(run: Run) -> Section | None:
    """Returns the texts that were written in training after each validation."""
    from transformer.families.language_model import language_evaluator

    if run.config.task != "language_modelling":
        return None
    title, by_step = "Learning to write", {}
    for line in run.of_kind("validation"):
        if written := language_evaluator.read_samples(line.get("samples", "")):
            by_step[line["step"]] = "".join(map(_box, written))
    if not by_step:
        return Section(title, ["No text is logged: `--config.evaluate.samples=2` logs two."])
    blocks = (f"<h3>step {step:,}</h3>{by_step[step]}" for step in evenly(by_step))
    return Section(title, [LEARNING, Markup("".join(blocks), STYLE)])


LEARNING = "Texts without a prompt, by the same random draws after each validation."


def section(run: Run) -> Section | None:
    """Returns a few texts that a language model writes without a prompt."""
    if run.config.task != "language_modelling":
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
    return Section("Texts", [about, Markup("".join(map(_box, texts)), STYLE)])


def sampled(run: Run) -> tuple[int, list[str]]:
    """Returns the newest step of the params, and SAMPLES texts without a prompt."""
    from transformer.families.language_model.continuations import unprompted

    config, loaded = run.config, trained.load(run.config, run.workdir)
    keys = ("seed", "temperature", "top_k", "top_p")
    return loaded.step, unprompted(
        loaded.params,
        SAMPLES,
        model=loaded.model,
        context=config.data.context_length,
        vocabulary=read_vocabulary(run.workdir, config),
        max_tokens=min(MOST_TOKENS, config.generate.max_tokens),
        **{key: config.generate[key] for key in keys},
    )


def _box(text: str) -> str:
    return f'<p class="text" dir="auto">{escape(shortened(text))}</p>'
