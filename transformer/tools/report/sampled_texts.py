"""Shows texts that a language model samples: after each validation, and at the end."""

from transformer.errors import UserError
from transformer.tasks import saved_model, vocabularies
from transformer.tools.pages import page
from transformer.tools.pages.page import Section
from transformer.tools.pages.run import Run
from transformer.tools.pages.sentences import evenly, shortened

SAMPLES = 3
MAX_TOKENS = 300
LEARNING = "Texts without a prompt, by the same random draws after each validation."


def samples(run: Run) -> Section | None:
    """Returns the texts that training sampled after each validation."""
    if "generate" not in run.config:
        return None
    from transformer.families.language_model import language_evaluator

    title, texts = "Learning to write", {}
    for line in run.logged("validation"):
        if written := language_evaluator.read_samples(line.get("samples", "")):
            texts[line["step"]] = [shortened(text) for text in written]
    if not texts:
        return Section(title, ["No text is logged: `--config.evaluate.samples=2` logs two."])
    boxes = {f"step {step:,}": texts[step] for step in evenly(texts)}
    return Section(title, [LEARNING, page.markup("report/sampled_texts", texts=boxes)])


def section(run: Run) -> Section | None:
    """Returns a few texts that a language model samples without a prompt."""
    if "generate" not in run.config:
        return None
    try:
        step, texts = sampled(run)
    except UserError as error:  # such as for a workdir without a checkpoint
        return Section("Texts", [f"No text can be sampled: {error}"])
    about = (
        f"Sampled from the {run.config.evaluate.weights} params, of step {step:,}, at temperature "
        f"{run.config.generate.temperature:g}. `{run.command('generate')}` continues a prompt."
    )
    boxes = {"": [shortened(text) for text in texts]}
    return Section("Texts", [about, page.markup("report/sampled_texts", texts=boxes)])


def sampled(run: Run) -> tuple[int, list[str]]:
    """Returns the newest step of the params, and SAMPLES texts without a prompt."""
    from transformer.families.language_model.continuations import SAMPLING, unprompted

    config, loaded = run.config, saved_model.load(run.config, run.workdir)
    options = {key: config.generate[key] for key in SAMPLING}
    options["max_tokens"] = min(MAX_TOKENS, options["max_tokens"])
    return loaded.step, unprompted(
        loaded.params,
        SAMPLES,
        model=loaded.model,
        context=config.data.context_length,
        vocabulary=vocabularies.read(run.workdir, config),
        **options,
    )
