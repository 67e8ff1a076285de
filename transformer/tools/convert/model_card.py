"""Writes the README.md of an exported folder: a model card, as the Hugging Face hub reads it."""

import shlex
from pathlib import Path

import jax
from ml_collections import ConfigDict

from transformer.checkpoints import store
from transformer.tasks import saved_model
from transformer.tools.pages import measures
from transformer.tools.pages.run import read_log
from transformer.workdir import log

# {task: the hub's name of it}
PIPELINES = {
    "translation": "translation",
    "language_modelling": "text-generation",
    "masked_language": "fill-mask",
    "classification": "text-classification",
    "image_classification": "image-classification",
}

NO_LICENCE = "\nThe licence is not stated: name it above (`license:`) before you share the model.\n"


def text(config: ConfigDict, source: Path, run: saved_model.SavedModel, folder: Path) -> str:
    """Returns the model card of the workdir `source`, exported into `folder`.

    The card has the data, sizes, steps, last scores, and the command that exports the folder again.
    """
    pipeline = PIPELINES.get(config.task, "other")
    model = f"A model of the task `{config.task}`"
    tags = ""
    if config.task == "translation":
        # 'source' and 'target' are placeholders of an imported model without languages.
        languages = config.data.source_language, config.data.target_language
        if not {"source", "target"} & {*languages}:
            model += " from `{}` to `{}`".format(*languages)
            tags = "language:\n" + "".join(f'- "{language}"\n' for language in languages)
    # The folder's name, not its path, which may be private.
    data = config.data
    files = f"{data.train} in {Path(data.directory).name}" if data.directory else data.train
    origin = "trained on\n" + (f"`{data.corpus}` ({files})" if "corpus" in data else files)
    if run.steps == [store.IMPORTED]:
        origin = "imported"
    facts = "\n".join(f"| {key} | {value} |" for key, value in _facts(config, source, run).items())
    options = {f"config.export.{key}": value for key, value in config.export.items()}
    options["config.evaluate.weights"] = config.evaluate.weights
    # Empty values are the defaults, and are left out of the command.
    given = [f"--{key}={value}" for key, value in options.items() if value != ""]
    workdir = f"--workdir={source.resolve().name}"  # '.' itself has no name
    command = ["python", "launch.py", "--mode=export", folder.name, workdir]
    # The hub reads the lines between the dashes as YAML.
    return f"""---
{tags}license: {config.export.licence or "other"}
pipeline_tag: {pipeline}
tags:
- {pipeline}
- jax
---

# {folder.name}

{model}, {origin}.
{"" if config.export.licence else NO_LICENCE}
| | |
|---|---|
{facts}

Exported by

    {shlex.join([*command, *given])}
"""


def _facts(config: ConfigDict, source: Path, run: saved_model.SavedModel) -> dict[str, str]:
    """Returns the rows of the card's table."""
    number = sum(x.size for x in jax.tree.leaves(run.params))
    facts = {
        "parameters": f"{number:,}",
        "weights": f"{config.evaluate.weights}, of step {', '.join(map(str, run.steps))}",
        **{f"config.model.{key}": str(value) for key, value in config.model.items()},
        **{f"config.vocabulary.{key}": str(x) for key, x in config.vocabulary.items() if x != ""},
    }
    for result in read_log(source, log.RESULTS):
        # Not of other params, such as an average.
        if (result.get("steps"), result.get("weights")) == (run.steps, config.evaluate.weights):
            signature = f" ({result['signature']})" if "signature" in result else ""
            facts[f"scores on {result['set']}"] = measures.in_words(result) + signature
    return facts
