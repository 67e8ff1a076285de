"""The installed command: `transformer-jax ...` and `python -m transformer ...` run launch.py."""

import runpy

from transformer.workdir.config_files import ROOT


def main() -> None:
    """Runs launch.py."""
    runpy.run_path(str(ROOT / "launch.py"), run_name="__main__")


if __name__ == "__main__":
    main()
