"""A workdir -> whether its checkpoints are what was written."""

import contextlib
import itertools
import json
import logging
import sys
from pathlib import Path

from ml_collections import ConfigDict

from transformer import checkpoint, parallel
from transformer.sealed import DamagedError, Sealed


def verify(config: ConfigDict, workdir: Path) -> None:
    """--mode=verify: one JSON line, {checkpoint: its damaged files}; exit status 1 if any has one.

    Each file is held against the checksum that was written with it, and then each array.
    """
    del config
    found = {}
    for place in checkpoint.PLACES:
        if (workdir / place).is_dir():
            with contextlib.closing(Sealed(workdir / place, read_only=True)) as folder:
                found |= {f"{place}/{step}": _faults(folder, step) for step in folder.steps()}
    if not found:
        raise ValueError(f"{workdir} holds no checkpoint")
    damaged = [name for name, faults in found.items() if faults]
    for fault in itertools.chain(*found.values()):
        logging.warning("damaged: %s", fault)
    logging.info("%d of %d checkpoints are whole", len(found) - len(damaged), len(found))
    print(json.dumps(found), flush=True)
    if damaged:
        sys.exit(1)


def _faults(folder: Sealed, step: int) -> list[str]:
    if faults := folder.faults(step):
        return faults
    try:
        folder.restore(step, parallel.to_restore(folder.shapes(step)))
    except DamagedError as error:
        return list(error.args)
    return []
