"""Texts that a language model writes."""

from html import escape

import numpy as np

from transformer.checkpoints.workdir import read_vocabulary
from transformer.decoding import compiled
from transformer.decoding.continuations import continuations, symbols, text
from transformer.errors import UserError
from transformer.reports.page import Markup, Section
from transformer.reports.run import Run
from transformer.tasks import trained

SAMPLES = 3
MOST_TOKENS = 300

STYLE = """
.text { margin: 0 0 1.25rem; padding: 0.9rem 1.1rem; border: 1px solid var(--line);
  border-radius: 6px; background: var(--raised); white-space: pre-wrap; overflow-wrap: anywhere; }
"""


def section(run: Run) -> Section | None:
    """Returns a few texts that a language model writes without a prompt."""
    if run.config.task != "language_modelling":
        return None
    try:
        step, samples = sampled(run)
    except UserError as error:  # such as a workdir without a checkpoint
        return Section("Texts", [f"No text can be sampled: {error}"])
    options = run.config.generate
    about = (
        f"Sampled from the {run.config.evaluate.weights} params, of step {step:,}, at temperature "
        f"{options.temperature:g}. `{run.command('generate')}` goes on "
        "from a prompt of yours."
    )
    blocks = "".join(f'<p class="text" dir="auto">{escape(sample)}</p>' for sample in samples)
    return Section("Texts", [about, Markup(blocks, STYLE)])


def sampled(run: Run) -> tuple[int, list[str]]:
    """Returns the newest step of the params, and SAMPLES texts without a prompt."""
    config = run.config
    vocabulary = read_vocabulary(run.workdir, config)
    loaded = trained.load(config, run.workdir)
    keys = ("seed", "temperature", "top_k", "top_p")
    blocks = continuations(
        compiled.cast_params(loaded.params, dtype=getattr(loaded.model, "dtype", "float32")),
        [[]] * SAMPLES,
        [(0, number) for number in range(SAMPLES)],
        model=loaded.model,
        context=config.data.context_length,
        **symbols(vocabulary),
        **{key: config.generate[key] for key in keys},
    )
    length, ids = min(MOST_TOKENS, config.generate.max_tokens), np.zeros((SAMPLES, 0), int)
    while ids.shape[1] < length:
        ids = np.concatenate([ids, next(blocks)], axis=1)
    return loaded.step, [text(vocabulary, row) for row in ids[:, :length].tolist()]
