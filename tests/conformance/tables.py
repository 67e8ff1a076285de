"""What is checked: all models, parts and tasks of the registry, or the one of `make check`.

A part is called BOX/NAME, a model with it MODEL/BOX/NAME, and another variant MODEL/NAME.
"""

import os

from transformer import registry

PARTS = {f"{box}/{name}": parts[name] for box, parts in registry.PARTS.items() for name in parts}
TABLES = {"MODEL": registry.MODELS, "TASK": registry.TASKS, "PART": PARTS}


def names(kind):
    """Returns the names of 'MODEL', 'PART' or 'TASK' that are checked."""
    asked = os.environ.get(f"CHECK_{kind}")
    return [asked] if asked else list(TABLES[kind])


def cases(kind, tiny):
    """Returns what of the tiny ones, NAME or NAME/VARIANT, is checked; of one MODEL no parts."""
    if part := kind == "MODEL" and os.environ.get("CHECK_PART"):
        return [case for case in tiny if case.partition("/")[2] == part]
    if os.environ.get("CHECK_MODEL"):
        tiny = [case for case in tiny if case.count("/") < 2]
    return [case for case in tiny if case.partition("/")[0] in {*names(kind)} & {*TABLES[kind]}]


def parts(box=""):
    """Returns the parts of a box, or of all boxes, that are checked."""
    return [name for name in names("PART") if name in PARTS and name.startswith(box)]


def check_names(kind, tiny, line):
    """Fails for a name that is not registered, or has no line in the table of tiny ones."""
    for name in names(kind):
        assert name in TABLES[kind], f"{kind}={name} must be one of {', '.join(TABLES[kind])}"
        file = f"TINY of tiny_{kind.lower()}s.py in tests/conformance/"
        assert name in tiny, f"{name} has no tiny {kind.lower()}: add to {file} {line}"
