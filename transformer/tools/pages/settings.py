"""Shows the config, what in it differs from its task's defaults, and the versions of packages."""

from transformer.tools.pages.page import Section, Table
from transformer.tools.pages.run import Run
from transformer.workdir.config_files import default_config, flatten

SAME = "the same"
# Keys that say where things are and how they are computed, on which no result depends.
APART = ("versions.", "parallel.", "compilation_cache", "data.data_dir", "data.directory")


def section(run: Run) -> Section:
    """Returns the config, with the default of each key that differs from it or has none."""
    task = run.config.task
    defaults, config = flatten(default_config(task)), flatten(run.config)
    rows = [[key, show(value), _mark(key, value, defaults)] for key, value in config.items()]
    differing = [
        row
        for row in rows
        if row[2] != SAME and not row[0].startswith(APART) and not row[0].endswith("fingerprint")
    ]
    return Section(
        "Config",
        [
            f"Keys that differ from configs/{task}.py: {len(differing)}.",
            Table(["key", "this run", "default"], differing),
            Table(["key", "value", "default"], rows, folded=f"All {len(config)} keys"),
        ],
    )


def _mark(key: str, value: object, defaults: dict[str, object]) -> str:
    """Says how a value compares with its default: SAME, the default, or '' where there is none."""
    if key not in defaults:
        return ""
    return SAME if value == defaults[key] else show(defaults[key])


def show(value: object) -> str:
    """Returns a config's value as text: 25000 is '25,000', '' is '""', as in a config file."""
    if isinstance(value, bool | float | tuple):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else str(value) or '""'


def versions(run: Run) -> Section:
    """Returns the versions of packages, in training and at the newest evaluation."""
    evaluated = run.evaluations[-1].result.get("versions", {}) if run.evaluations else {}
    rows = [
        [name, run.versions.get(name, ""), evaluated.get(name, "")]
        for name in {**run.versions, **evaluated}
    ]
    return Section("Packages", [Table(["package", "training", "evaluation"], rows)])
