"""How many runs there are at the same time, and the environment of each of their processes."""

import os
import subprocess
import sys

from transformer.errors import UserError

COUNT = "import jax; print(jax.default_backend(), jax.local_device_count())"


def environments(processes: int) -> list[dict[str, str]]:
    """Returns the environment variables that each of the processes at the same time gets besides.

    With `processes` 0 there is a process for each GPU; elsewhere there is one, which has all
    devices. UserError for several processes on a TPU, whose chips belong to one.
    """
    platform, count = _devices()
    if platform == "tpu" and processes > 1:
        raise UserError(
            f"config.sweep.processes must be 0 or 1 on a TPU, whose chips belong to one process, "
            f"found {processes}"
        )
    if platform != "gpu":
        return [{}] * max(processes, 1)
    # A GPU may have a name, such as MIG-..., and the order of the variable is that of JAX.
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    gpus = visible if len(visible) == count and all(visible) else [*map(str, range(count))]
    shared = {}
    if processes > count and not any(name.endswith("MEM_FRACTION") for name in os.environ):
        # JAX allocates three quarters of a GPU's memory at start. With 5 processes on 2 GPUs, the
        # first GPU has 3 of them.
        shared["XLA_CLIENT_MEM_FRACTION"] = f"{0.9 / -(-processes // count):.2f}"
    return [{"CUDA_VISIBLE_DEVICES": gpus[i % count], **shared} for i in range(processes or count)]


def _devices() -> tuple[str, int]:
    """Returns JAX's platform here, and its number of devices.

    Counted by a process of its own: one that has counted them keeps memory of each GPU as long as
    it lives, and all chips of a TPU.
    """
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    counted = subprocess.run(
        [sys.executable, "-c", COUNT], env=environment, capture_output=True, text=True, check=False
    )
    if counted.returncode:
        reason = (counted.stderr.strip() or "no reason").splitlines()[-1]
        raise UserError(f"JAX finds no devices: {reason}")
    platform, count = counted.stdout.split()[-2:]
    return platform, int(count)
