"""A workdir -> whether its checkpoints are what was written."""

import itertools
import json
import logging
import sys
from pathlib import Path

from ml_collections import ConfigDict

from transformer.checkpoints import manager, store
from transformer.errors import UserError
from transformer.storage import checksums


def verify(config: ConfigDict, workdir: Path) -> None:
    """--mode=verify: prints one JSON line, {checkpoint: its damaged files}; exit status 1 if any
    has one. Each file is compared with the checksum that was written with it."""
    del config
    faults = {}
    for place in manager.PLACES:
        for step in store.all_steps(workdir / place):
            folder = workdir / place / str(step)
            damaged = checksums.corrupt_files(folder)
            if folder.is_dir():  # not deleted meanwhile by a run that trains here
                missing = [f"{folder / checksums.NAME} (missing: an incomplete checkpoint)"]
                faults[f"{place}/{step}"] = missing if damaged is None else damaged
    if not faults:
        raise UserError(f"{workdir} holds no checkpoint")
    for fault in itertools.chain(*faults.values()):
        logging.warning("damaged: %s", fault)
    whole = sum(not damaged for damaged in faults.values())
    logging.info("%d of %d checkpoints are whole", whole, len(faults))
    print(json.dumps(faults), flush=True)
    if whole < len(faults):
        sys.exit(1)
