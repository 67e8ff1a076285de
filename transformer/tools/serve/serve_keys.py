"""The keys that only --mode=serve reads."""

KEYS = {
    "serve.host": "127.0.0.1",  # this machine only; '0.0.0.0': all machines that can connect
    "serve.port": [8000, "at least 0 and below 65536"],  # 0: any free port, which is logged
    "serve.also": "",  # further trained workdirs, DIR,DIR; a model's name is its folder's
    "serve.warm_up": "",  # a FILE of typical lines to translate first, to compile their shapes
    # Seconds to wait for more lines after a batch of several.
    "serve.batch_wait": [0.005, "at least 0 and below 60"],
    "serve.batch_lines": [64, "at least 1"],  # maximum lines of a batch
    "serve.max_characters": [100_000, "at least 1"],  # of a request's texts
    "serve.max_line": [5_000, "at least 1"],  # characters of a line
    "serve.max_lines": [1_000, "at least 1"],  # of a request; a text may have several
    # Waiting lines of all requests; further requests get status 503.
    "serve.max_waiting": [10_000, "at least 1"],
    # Seconds until a request gets status 504, and for open requests when the service stops.
    "serve.timeout": [60.0, "above 0 and at most 1000000"],
}
