"""The README.md of an exported folder: a model card, as the Hugging Face hub reads it."""

from collections.abc import Sequence

# {task: (the hub's name of it, what the model is)}
TASKS = {
    "translation": (
        "translation",
        "A Transformer (Vaswani et al. 2017) that translates",
    ),
    "language_modelling": (
        "text-generation",
        "A decoder-only Transformer (Radford et al. 2018) that continues a text",
    ),
    "masked_language": (
        "fill-mask",
        "An encoder-only Transformer (Devlin et al. 2019) that predicts masked tokens",
    ),
    "classification": ("text-classification", "A classifier of texts"),
    "image_classification": (
        "image-classification",
        "A Vision Transformer (Dosovitskiy et al. 2021) that classifies images",
    ),
}

NO_LICENCE = """
The licence is not stated: name it above (`license:`) before you share the model.
"""


def text(
    *,
    name: str,
    task: str,
    languages: Sequence[str],
    data: str,
    licence: str,
    facts: dict[str, str],
    command: str,
) -> str:
    """Returns a model card; `facts` are the rows of its table, `command` is how it was exported.

    `languages` are source and target of translation; none of other tasks, or where unknown.
    """
    pipeline, model = TASKS.get(task, ("other", f"A model of the task `{task}`"))
    tags = ""
    if languages:
        model += " from `{}` to `{}`".format(*languages)
        tags = "language:\n" + "".join(f"- {language}\n" for language in languages)
    rows = "\n".join(f"| {key} | {value} |" for key, value in facts.items())
    missing = "" if licence else NO_LICENCE
    return f"""---
{tags}license: {licence or "other"}
pipeline_tag: {pipeline}
tags:
- {pipeline}
- jax
---

# {name}

{model}, {data}.
{missing}
| | |
|---|---|
{rows}

Exported by

    {command}
"""
