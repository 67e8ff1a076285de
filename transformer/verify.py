"""A workdir -> whether its checkpoints are what was written."""

import json
import logging
import sys
from pathlib import Path

from ml_collections import ConfigDict

from transformer import checkpoint


def verify(config: ConfigDict, workdir: Path) -> None:
    """--mode=verify: one JSON line, {checkpoint: its damaged files}; exit status 1 if any has one.

    Each file is held against the checksum that was written with it.
    """
    del config
    found = checkpoint.verify(workdir)
    if not found:
        raise ValueError(f"{workdir} holds no checkpoint")
    damaged = [name for name, faults in found.items() if faults]
    logging.info("%d of %d checkpoints are whole", len(found) - len(damaged), len(found))
    print(json.dumps(found), flush=True)
    if damaged:
        sys.exit(1)
