"""Loss and gradients of a small model on the accelerator, beside those on the CPU.

    python -m benchmarks.numerics

float32, with products of the highest precision, is compared with plain JAX on the CPU, bfloat16
with the accelerator's own float32; on a GPU also under config.kernels='cudnn'. A row of the batch
has two texts and padding. There is no dropout, whose bits differ by platform. The function is
mapped over one device, as in training, because fused kernels ask for that. Errors are relative, of
the gradients |g - g'| / |g'| over all params together. On a CPU the gradients' are about 2e-7 in
float32, 3e-2 in bfloat16.
"""

import functools

import jax
import numpy as np
from flax import traverse_util

from benchmarks import yardstick
from transformer.distributed.layout import PMAP_AXIS
from transformer.models import kernels
from transformer.tasks import translation
from transformer.tasks.task import init_params

B, V = 8, 1000
# A row: a text of 30 positions, one of 26, and padding of 8.
SEGMENTS_T = np.repeat([1, 2, 0], [30, 26, 8]).astype(np.int32)
POSITIONS_T = np.concatenate([np.arange(n, dtype=np.int32) for n in (30, 26, 8)])


def main() -> None:
    cpu, accelerator = jax.devices("cpu")[0], jax.devices()[0]
    config, model = yardstick.transformer("small", "float32", V=V)
    init = functools.partial(init_params, model, translation.example(config, 1))
    with jax.default_device(cpu):
        params = jax.device_get(jax.jit(init)(jax.random.key(0)))
    print(f"{accelerator.device_kind}\n   loss | gradients | of")
    on_cpu = loss_and_gradients(params, cpu, "float32", "plain")
    exact = loss_and_gradients(params, accelerator, "float32", "tuned")
    show("float32, beside the CPU's", exact, on_cpu)
    for set_of_kernels in ("tuned", "cudnn") if accelerator.platform == "gpu" else ("tuned",):
        values = loss_and_gradients(params, accelerator, "bfloat16", set_of_kernels)
        show(f"bfloat16 ({set_of_kernels}), beside float32", values, exact)


def loss_and_gradients(
    params: dict, device: jax.Device, dtype: str, set_of_kernels: str
) -> tuple[float, np.ndarray]:
    """The loss, and the gradients of all params as one array, without dropout."""
    kernels.use(set_of_kernels)
    config, model = yardstick.transformer("small", dtype, dropout_rate=0.0, V=V)
    loss = translation.loss(config, model)

    @functools.partial(jax.pmap, axis_name=PMAP_AXIS, in_axes=(None, 0), devices=[device])
    def differentiate(params: dict, batch: dict) -> tuple:
        return jax.value_and_grad(
            lambda params: loss(params, batch, rng=jax.random.key(0))["loss"]
        )(params)

    with jax.default_device(device), jax.default_matmul_precision("highest"):
        value, gradients = differentiate(params, jax.tree.map(lambda x: x[None], batch()))
    flat = traverse_util.flatten_dict(jax.device_get(gradients))
    return float(value[0]), np.concatenate([flat[path].ravel() for path in sorted(flat)])


def batch() -> dict:
    """A batch of random ids, B x T."""
    random = np.random.default_rng(1)
    targets = random.integers(4, V, (B, len(SEGMENTS_T))).astype(np.int32)
    inputs = {"source": targets[:, ::-1].copy(), "target": np.roll(targets, 1, axis=1)}
    for side in ("source", "target"):
        inputs[f"{side}_positions"] = np.tile(POSITIONS_T, (B, 1))
        inputs[f"{side}_segments"] = np.tile(SEGMENTS_T, (B, 1))
    weights = np.tile((SEGMENTS_T > 0).astype(np.float32), (B, 1))
    return {"inputs": inputs, "targets": targets, "weights": weights}


def show(name: str, found: tuple, expected: tuple) -> None:
    """Prints the relative errors of (loss, gradients)."""
    loss = abs(found[0] - expected[0]) / abs(expected[0])
    gradients = np.linalg.norm(found[1] - expected[1]) / np.linalg.norm(expected[1])
    print(f"{loss:7.1e}   {gradients:7.1e}   {name}", flush=True)


if __name__ == "__main__":
    main()
