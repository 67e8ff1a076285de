"""Abstract devices to compile for: slices of TPU pods, and hosts of NVIDIA's GPUs."""

import importlib.util
import os
import re
from typing import NamedTuple

import jax
from jax.experimental import topologies

from transformer.errors import UserError
from transformer.runtime.devices import hardware


class GPU(NamedTuple):
    """Properties of a GPU for XLA's compiler, besides HARDWARE (runtime/devices.py)."""

    kind: str  # the driver's name
    capability: str  # CUDA's compute capability
    cores: int  # streaming multiprocessors
    fpus: int  # float32 units of a core
    shared_memory: int  # KiB per core; a block of threads can use all but one
    cache: float  # MiB, level 2
    clock: float  # GHz
    links: int  # NVLinks


# NVIDIA's data sheets, and the CUDA programming guide's table of compute capabilities.
GPUS = {
    "a100": GPU("NVIDIA A100-SXM4-80GB", "8.0", 108, 64, 164, 40, 1.41, 12),
    "h100": GPU("NVIDIA H100 80GB HBM3", "9.0", 132, 128, 228, 50, 1.98, 18),
    "h200": GPU("NVIDIA H200", "9.0", 132, 128, 228, 50, 1.98, 18),
    "b200": GPU("NVIDIA B200", "10.0", 148, 128, 228, 126.5, 1.965, 18),
}


def check(topology: str) -> None:
    """Raises UserError if a `config.plan.topology` is unknown, or its compiler not installed."""
    kind, _, count = topology.partition(":")
    number = int(count) if re.fullmatch(r"[1-9]\d*", count) else 0
    if kind in GPUS and number and (number < 8 or number % 8 == 0):  # one host or whole hosts
        packages, extra = ("jax_cuda13_plugin", "jax_cuda12_plugin"), "cuda13"
    elif re.fullmatch(r"v[56]e:\d+x\d+", topology):
        packages, extra = ("libtpu",), "tpu"
    else:
        raise UserError(
            "config.plan.topology must be a slice of TPU v5e or v6e, such as v5e:4x4, or GPUs "
            f"({', '.join(GPUS)}), such as h100:8, of which more than 8 are whole hosts of 8, "
            f"found {topology!r} (for other devices set config.plan.num_devices)"
        )
    if not any(map(importlib.util.find_spec, packages)):
        raise UserError(
            f"config.plan.topology={topology} needs the compiler of these devices, but "
            f'{packages[0]} is not installed: pip install "jax[{extra}]"'
        )


def abstract_devices(topology: str) -> list[jax.Device]:
    """Returns the abstract devices of 'v5e:4x4' or 'h100:16', to compile for.

    JAX must run on the CPU (`plan.simulate`): then it loads the GPU compiler without a driver, and
    uses none of this machine's GPUs. `check` refuses TPU chips with two cores (v4, v5p), because
    they would appear as two devices, and a run uses them as one.
    """
    kind, _, count = topology.partition(":")
    if kind in GPUS:
        per_host = min(int(count), 8)
        return topologies.get_topology_desc(
            platform="cuda",
            target_config=description(GPUS[kind]),
            topology=f"{int(count) // per_host}x1x{per_host}",  # one process per host
        ).devices
    # Otherwise libtpu queries the cloud's metadata server.
    os.environ.update(TPU_SKIP_MDS_QUERY="1", TPU_WORKER_HOSTNAMES="localhost")
    # Several plans may run at once, because none uses a device.
    os.environ["ALLOW_MULTIPLE_LIBTPU_LOAD"] = "1"
    try:
        return topologies.get_topology_desc(topology, platform="tpu").devices
    except jax.errors.JaxRuntimeError as error:
        raise UserError(f"config.plan.topology={topology} is not a pod slice: {error}") from error


def description(gpu: GPU) -> str:
    """Returns a GPU as text of XLA's GpuTargetConfigProto."""
    sheet, (major, minor) = hardware(gpu.kind), gpu.capability.split(".")
    # From 9.0 on, XLA needs features of exactly this capability, such as Hopper's wgmma.
    extension = "NONE" if major == "8" else "ACCELERATED_FEATURES"
    return f"""
gpu_device_info {{
  cuda_compute_capability {{ major: {major} minor: {minor} feature_extension: {extension} }}
  core_count: {gpu.cores} fpus_per_core: {gpu.fpus} clock_rate_ghz: {gpu.clock}
  device_memory_size: {sheet.memory_bytes:.0f} memory_bandwidth: {sheet.memory_bandwidth:.0f}
  l2_cache_size: {gpu.cache * 2**20:.0f} shared_memory_per_core: {gpu.shared_memory * 2**10}
  shared_memory_per_block: {48 * 2**10}
  shared_memory_per_block_optin: {(gpu.shared_memory - 1) * 2**10}
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  threads_per_core_limit: 2048 threads_per_block_limit: 1024 threads_per_warp: 32
  block_dim_limit_x: {2**31 - 1} block_dim_limit_y: 65535 block_dim_limit_z: 65535
  device_interconnect_info {{ active_links: {gpu.links} }}
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 }}
device_description_str: "{gpu.kind}"
"""
