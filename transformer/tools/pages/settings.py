"""Shows the config, its differences from the task's defaults, and the versions of packages."""

from transformer.tools.pages.page import Section, Table
from transformer.tools.pages.run import Run
from transformer.workdir.config_files import default_config
from transformer.workdir.key_tables import flatten

SAME = "the same"
# Keys of places and of the way of computing are not counted, because they change no result.
APART = ("versions.", "parallel.", "compilation_cache", "data.data_dir", "data.directory")


def section(run: Run) -> Section:
    """Returns the keys that differ from the task's defaults, and the whole config."""
    task = run.config.task
    defaults, config = flatten(default_config(task)), flatten(run.config)
    # A key without a default counts as different: a fork may have added it.
    rows, differing = [], []
    for key, value in config.items():
        default = show(defaults[key]) if key in defaults else ""
        is_same = key in defaults and value == defaults[key]
        rows.append([key, show(value), SAME if is_same else default])
        if not is_same and not key.startswith(APART) and not key.endswith("fingerprint"):
            differing.append(rows[-1])
    about = f"Keys that differ from configs/{task}.py: {len(differing)}."
    everything = Table(["key", "value", "default"], rows, folded=f"All {len(config)} keys")
    return Section("Config", [about, Table(["key", "this run", "default"], differing), everything])


def show(value: object) -> str:
    """Returns a config's value as text: 25000 is '25,000', '' is '""', as in a config file."""
    if isinstance(value, bool | float | tuple):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else str(value) or '""'


def versions(run: Run) -> Section:
    """Returns the versions of packages, in training and at the newest evaluation."""
    evaluated = run.evaluations[-1].result.get("versions", {}) if run.evaluations else {}
    names = {**run.versions, **evaluated}
    rows = [[name, run.versions.get(name, ""), evaluated.get(name, "")] for name in names]
    return Section("Packages", [Table(["package", "training", "evaluation"], rows)])
