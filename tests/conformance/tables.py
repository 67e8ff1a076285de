"""What is checked: all models, mixers, tasks of the registry, or the one of `make check`.

A model with a mixer is called MODEL/MIXER, and is checked by either name.
"""

import os

from transformer import registry

TABLES = {"MODEL": registry.MODELS, "TASK": registry.TASKS, "MIXER": registry.PARTS["mixer"]}


def names(kind):
    """Returns the names of 'MODEL', 'MIXER' or 'TASK' that are checked."""
    asked = os.environ.get(f"CHECK_{kind}")
    return [asked] if asked else list(TABLES[kind])


def cases(kind, tiny):
    """Returns what of the tiny ones, NAME or NAME/VARIANT, is checked."""
    if mixer := kind == "MODEL" and os.environ.get("CHECK_MIXER"):
        return [case for case in tiny if case == f"transformer/{mixer}"]
    return [case for case in tiny if case.partition("/")[0] in {*names(kind)} & {*TABLES[kind]}]


def check_names(kind, tiny, line, table=""):
    """Fails for a name that is not registered, or has no line in the table of tiny ones."""
    for name in names(kind):
        assert name in TABLES[kind], f"{kind}={name} must be one of {', '.join(TABLES[kind])}"
        table = table or f"TINY of tiny_{kind.lower()}s.py"
        file = f"{table} in tests/conformance/"
        assert name in tiny, f"{name} has no tiny {kind.lower()}: add to {file} {line}"
