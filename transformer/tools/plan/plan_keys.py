"""The keys that only --mode=plan reads."""

from ml_collections import ConfigDict


def keys() -> ConfigDict:
    config = ConfigDict()
    config.plan = ConfigDict()
    config.plan.num_devices = 0  # devices to plan for, simulated on the CPU; 0: the present ones
    # A TPU slice such as 'v5e:4x4', or GPUs such as 'h100:8', instead of num_devices and device:
    # the step is compiled by their own compiler, from pip install "jax[tpu]" or "jax[cuda13]".
    config.plan.topology = ""
    config.plan.device = ""  # 'TPU v5e', 'H100', ... (runtime/devices.py); "": the one present
    config.plan.share_of_peak = 0.4  # MFU to assume: achieved FLOP/s over peak FLOP/s
    config.plan.bandwidth = 0.0  # bytes/s that a device sends; 0: look up in runtime/devices.py
    return config
