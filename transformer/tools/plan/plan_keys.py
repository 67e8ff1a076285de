"""The keys that only --mode=plan reads."""

KEYS = {
    # Devices to plan for, simulated on the CPU; 0: this machine's.
    "plan.num_devices": [0, "at least 0"],
    # A TPU slice such as 'v5e:4x4', or GPUs such as 'h100:8', instead of num_devices and device.
    # Needs their compiler: pip install "jax[tpu]" or "jax[cuda13]".
    "plan.topology": "",
    "plan.device": "",  # 'TPU v5e', 'H100', ... (runtime/devices.py); "": this machine's
    # MFU to assume: achieved FLOP/s over peak FLOP/s.
    "plan.share_of_peak": [0.4, "above 0 and at most 1"],
    # Bytes/s that a device sends; 0: look up in runtime/devices.py.
    "plan.bandwidth": [0.0, "at least 0"],
}
