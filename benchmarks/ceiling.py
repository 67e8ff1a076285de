"""The ceiling of an engine: how fast this device multiplies matrices of float32 and bfloat16.

The device is the accelerator, or the CPU where there is none. Two libraries multiply: XLA, and
PyTorch, or NumPy where PyTorch is not installed. The matrices are square, or have the shapes of a
model's products with weights. Each library takes turns with the engines, in a process of its own.
The ceiling is the rate of the faster library on the device. An engine's share is its own FLOPs a
second over the ceiling. float32 products have the precision that is JAX's default: TF32 on NVIDIA's
GPUs, bfloat16 on TPUs. On a GPU, PyTorch's rate at products of less than about 10 µs is that of
their dispatch.

Another engine's Python may import this: it needs nothing of ours.
"""

import collections
import functools
import os
import platform
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks import yardstick

LIBRARIES = ("ceiling-xla", "ceiling-peers")
DTYPES = ("float32", "bfloat16")
SIDE, ACCELERATORS_SIDE = 2048, 8192
CALLS = 20  # products of a timed run on an accelerator, where one is too short to time
Products = collections.Counter  # {(N, K, M): how many products [N, K] x [K, M]}


def cpu() -> str:
    """The CPU's name, the cores that this process may use, and its units for matrices."""
    from transformer.runtime import startup

    file, features = Path("/proc/cpuinfo"), startup.cpu_features().split()
    names = re.findall(r"model name\s*: (.*)", file.read_text() if file.exists() else "")
    units = {"AVX-512": "avx512f", "AVX-512 bfloat16": "avx512_bf16", "AMX bfloat16": "amx_bf16"}
    has = ", ".join(f"{'' if x in features else 'no '}{unit}" for unit, x in units.items())
    return f"{[*names, platform.machine()][0]}, {len(os.sched_getaffinity(0))} cores, {has}"


def source_products(sizes: Mapping[str, int], rows: int) -> Products:
    """The encoder's products with weights, and the decoder's for the keys and values of memory."""
    D, F, L = (sizes[letter] for letter in "DFL")
    return Products({(rows, D, D): 6 * L, (rows, D, F): L, (rows, F, D): L})


def target_products(sizes: Mapping[str, int], rows: int) -> Products:
    """The decoder's other products with weights, as many as on the source's side, and logits."""
    return source_products(sizes, rows) + Products({(rows, sizes["D"], sizes["V"]): 1})


def step_products(sizes: Mapping[str, int]) -> Products:
    """The products with weights of a training step on B rows of S and T positions."""
    B, S, T = (sizes[letter] for letter in "BST")
    forward = source_products(sizes, B * S) + target_products(sizes, B * T)
    products = Products()
    for (N, K, M), count in forward.items():
        # Forward, the gradient of the input [N, K], and that of the weights [K, M].
        for shape in ((N, K, M), (N, M, K), (K, N, M)):
            products[shape] += count
    return products


def decoding_products(sizes: Mapping[str, int], beams: int) -> Products:
    """The products with weights of a search: B rows of S positions, then T steps of B * beams."""
    B, S, T = (sizes[letter] for letter in "BST")
    products = source_products(sizes, B * S)
    for shape, count in target_products(sizes, B * beams).items():
        products[shape] += T * count
    return products


def flops(products: Products) -> int:
    return sum(2 * N * K * M * count for (N, K, M), count in products.items())


def rates(library: str, products: Products) -> dict:
    """A turn of one of LIBRARIES: its name, its device and its rates.

    These are {dtype: (GFLOP/s of a square product of `side`, of `products`)}.
    """
    name, device, multiply = xla() if library == "ceiling-xla" else torch_or_numpy()
    on_cpu = device == cpu()
    side, calls = (SIDE, 1) if on_cpu else (ACCELERATORS_SIDE, CALLS)
    square = Products({(side, side, side): 1})
    dtypes = DTYPES[:1] if name == "NumPy" else DTYPES
    measure = lambda dtype: [rate(multiply, dtype, kind, calls) for kind in (square, products)]
    by_dtype = {dtype: measure(dtype) for dtype in dtypes}
    return {"name": name, "device": device, "side": side, "rates": by_dtype}


def rate(multiply: Callable, dtype: str, products: Products, calls: int) -> float:
    """GFLOP/s of all products, each by the median of its time; a run multiplies `calls` times."""
    seconds = 0.0
    for shape, count in products.items():
        run = multiply(dtype, *shape)
        times = yardstick.timed(lambda run=run: run(calls), least=5, seconds=0.2)
        seconds += count * statistics.median(times[1:]) / calls  # the first one compiles
    return flops(products) / seconds / 1e9


def xla() -> tuple[str, str, Callable]:
    """XLA's name, its device, and (dtype, N, K, M) -> (calls) -> products."""
    import jax
    import jax.numpy as jnp

    device = jax.devices()[0]
    on_cpu = device.platform == "cpu"

    @functools.partial(jax.jit, static_argnums=2)
    def products(x: jax.Array, y: jax.Array, calls: int) -> jax.Array:
        # On a CPU sums stay in float32, on an accelerator they are written in the type of x, as by
        # the model.
        to = jnp.float32 if on_cpu else x.dtype
        multiply = lambda x: (x, jnp.matmul(x, y, preferred_element_type=to))
        # One number of each product enters the next one. XLA would otherwise multiply only once.
        again = lambda _, xz: multiply(xz[0].at[0, 0].set(xz[1][0, 0].astype(x.dtype)))
        return jax.lax.fori_loop(1, calls, again, multiply(x))[1]

    def multiply(dtype: str, N: int, K: int, M: int) -> Callable:
        x = jax.random.normal(jax.random.key(0), (N, K)).astype(dtype)
        y = jax.random.normal(jax.random.key(1), (K, M)).astype(dtype)
        return lambda calls: jax.block_until_ready(products(x, y, calls))

    return "XLA", cpu() if on_cpu else device.device_kind, multiply


def torch_or_numpy() -> tuple[str, str, Callable]:
    """The same by PyTorch where it is installed, otherwise by NumPy, in float32 only."""
    try:
        import torch
    except ImportError:
        return "NumPy", cpu(), multiply_by_numpy
    has_cuda = torch.cuda.is_available()
    torch.backends.cuda.matmul.allow_tf32 = True  # as JAX by default
    options = {"device": "cuda" if has_cuda else "cpu"}

    def multiply(dtype: str, N: int, K: int, M: int) -> Callable:
        shapes = ((N, K), (K, M))
        x, y = (torch.randn(shape, **options).to(getattr(torch, dtype)) for shape in shapes)

        def run(calls: int) -> None:
            for _ in range(calls):
                x @ y
            if has_cuda:
                torch.cuda.synchronize()

        return run

    return "PyTorch", torch.cuda.get_device_name() if has_cuda else cpu(), multiply


def multiply_by_numpy(dtype: str, N: int, K: int, M: int) -> Callable:
    import numpy as np

    random = np.random.default_rng(0)
    x, y = (random.standard_normal(shape).astype(dtype) for shape in ((N, K), (K, M)))
    return lambda calls: [x @ y for _ in range(calls)]


SHARES = "share of square | of the model's products"


def report(turns: Mapping[str, Sequence[dict]]) -> dict[str, list[float]]:
    """Prints the rates, {library: its turns}, and their device; returns {dtype: two ceilings}.

    On an accelerator a library that has only the CPU is left out.
    """
    devices = {of_library[0]["device"] for of_library in turns.values()}
    accelerators = devices - {cpu()}
    print(", ".join(accelerators or {cpu()}))
    if turns:
        print("GFLOP/s of a square | of the model's products | side | dtype | library")
    ceilings = {}
    for of_library in turns.values():
        if accelerators and of_library[0]["device"] == cpu():
            continue
        for dtype in of_library[0]["rates"]:
            pairs = zip(*(turn["rates"][dtype] for turn in of_library), strict=True)
            square, model = map(statistics.median, pairs)
            print(
                f"{square:19,.0f} {model:25,.0f} {of_library[0]['side']:6,}   {dtype:8}  "
                f"{of_library[0]['name']}"
            )
            best = ceilings.get(dtype, [0.0, 0.0])
            ceilings[dtype] = [max(best[0], square), max(best[1], model)]
    return ceilings


def shares(engine: str, gigaflops: float, ceilings: Mapping[str, Sequence[float]]) -> str:
    """An engine's shares of both ceilings of its dtype; blank where there are none, as of int8."""
    dtype = next((x for x in (*DTYPES, "int8") if x in engine), "float32")
    return " ".join(f"{gigaflops / x:15.0%}" for x in ceilings.get(dtype, ())) or " " * 31
