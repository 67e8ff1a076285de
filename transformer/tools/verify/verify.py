"""--mode=verify: compares the files of all checkpoints with their checksums."""

import json
import sys
from pathlib import Path

from ml_collections import ConfigDict

from transformer.checkpoints import store
from transformer.errors import UserError
from transformer.runtime import checksums


def verify(config: ConfigDict, workdir: Path) -> None:
    """Prints one JSON line, {checkpoint: ["PATH (reason)" of each damaged file]}.

    Exits with status 1 if a checkpoint has a checksum mismatch or is incomplete; UserError if the
    workdir has no checkpoint.
    """
    faults = {}
    for place in store.PLACES:
        for step in store.all_steps(workdir / place):
            folder = workdir / place / str(step)
            damaged = checksums.corrupt_files(folder)
            if damaged is None:  # the save did not finish
                damaged = [f"{folder / checksums.NAME} (missing: an incomplete checkpoint)"]
            faults[f"{place}/{step}"] = damaged
    if not faults:
        raise UserError(f"{workdir} holds no checkpoint")
    print(json.dumps(faults), flush=True)
    if any(faults.values()):
        sys.exit(1)
