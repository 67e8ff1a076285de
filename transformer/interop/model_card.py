"""The README.md of an exported folder: a model card, as the Hugging Face hub reads it."""

from collections.abc import Sequence


def text(
    *,
    name: str,
    languages: Sequence[str],
    data: str,
    licence: str,
    facts: dict[str, str],
    command: str,
) -> str:
    """Returns a model card; `facts` are the rows of its table, `command` is how it was exported."""
    header = "\n".join(
        [
            "---",
            *("language:", *(f"- {language}" for language in languages)),
            f"license: {licence or 'other'}",
            "pipeline_tag: translation",
            "tags:",
            "- translation",
            "- jax",
            "---",
        ]
    )
    source, target = languages
    rows = "\n".join(f"| {key} | {value} |" for key, value in facts.items())
    missing = (
        ""
        if licence
        else (
            "\nThe licence is not stated: name it above (`license:`) before you share the model.\n"
        )
    )
    return f"""{header}

# {name}

A Transformer (Vaswani et al. 2017) that translates from `{source}` to `{target}`, trained on
{data}.
{missing}
| | |
|---|---|
{rows}

Exported by

    {command}
"""
