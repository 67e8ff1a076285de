"""What is checked: all models and tasks of the registry, or the one that `make check` names."""

import os

from transformer import registry

TABLES = {"MODEL": registry.MODELS, "TASK": registry.TASKS}


def names(kind):
    """Returns the names of 'MODEL' or 'TASK' that are checked."""
    asked = os.environ.get(f"CHECK_{kind}")
    return [asked] if asked else list(TABLES[kind])


def cases(kind, tiny):
    """Returns what of the tiny ones, NAME or NAME/VARIANT, is checked."""
    return [case for case in tiny if case.partition("/")[0] in {*names(kind)} & {*TABLES[kind]}]


def check_names(kind, tiny, line):
    """Fails for a name that is not registered, or has no line in the table of tiny ones."""
    for name in names(kind):
        assert name in TABLES[kind], f"{kind}={name} must be one of {', '.join(TABLES[kind])}"
        file = f"tests/conformance/tiny_{kind.lower()}s.py"
        assert name in tiny, f"{name} has no tiny {kind.lower()}: add to TINY of {file} {line}"
