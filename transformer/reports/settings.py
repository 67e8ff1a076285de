"""The config, what in it differs from the paper, and the versions of packages."""

from transformer.checkpoints.config_files import HERE, flatten, load_config
from transformer.reports.page import Section, Table
from transformer.reports.run import Run

PAPER = "wmt_base.py"  # the paper's base model
# Where things are, and what results do not depend on.
APART = ("plan.", "parallel.", "compilation_cache", "data.data_dir", "data.directory")


def section(run: Run) -> Section:
    """Returns the config, with the paper's value of each key that differs from it."""
    paper = flatten(load_config(str(HERE / "configs" / PAPER)))
    config = flatten(run.config)
    differing = [
        [key, show(value), show(paper[key])]
        for key, value in config.items()
        if key in paper
        and value != paper[key]
        and not key.startswith(APART)
        and not key.endswith("fingerprint")
    ]
    return Section(
        "Config",
        [
            f"{len(differing)} keys differ from the paper's base model (configs/{PAPER}).",
            Table(["key", "this run", "the paper"], differing),
            Table(
                ["key", "value", "the paper"],
                [[key, show(value), _mark(key, value, paper)] for key, value in config.items()],
                folded=f"All {len(config)} keys",
            ),
        ],
    )


def _mark(key: str, value: object, paper: dict[str, object]) -> str:
    """Says how a value compares with the paper's: 'the same', the paper's value, or '' for none."""
    if key not in paper:
        return ""
    return "the same" if value == paper[key] else show(paper[key])


def show(value: object) -> str:
    """Returns a config's value as text: 25000 is '25,000', '' is '""', as in a config file."""
    if isinstance(value, bool | float | tuple):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else value or '""'


def versions(run: Run) -> Section:
    """Returns the versions of packages, in training and at the newest evaluation."""
    evaluated = run.evaluations[-1].result.get("versions", {}) if run.evaluations else {}
    rows = [
        [name, run.versions.get(name, ""), evaluated.get(name, "")]
        for name in {**run.versions, **evaluated}
    ]
    return Section("Packages", [Table(["package", "training", "evaluation"], rows)])
