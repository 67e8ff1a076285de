"""The keys that only --mode=serve reads."""

KEYS = {
    "serve.host": "127.0.0.1",  # this machine alone; '0.0.0.0': every machine that reaches it
    "serve.port": [8000, "at least 0 and below 65536"],  # 0: any free one, which is logged
    "serve.also": "",  # further trained workdirs, DIR,DIR; a model's name is its folder's
    "serve.warm_up": "",  # a FILE of typical lines, translated first, so that all is compiled
    # Seconds to wait for more lines, where several came before.
    "serve.batch_wait": [0.005, "at least 0 and below 60"],
    "serve.batch_lines": [64, "at least 1"],  # at most, of a batch
    "serve.max_characters": [100_000, "at least 1"],  # of a request's texts
    "serve.max_line": [5_000, "at least 1"],  # characters of a line
    "serve.max_lines": [1_000, "at least 1"],  # of a request; a text may have several
    # Lines of all requests; a request beyond these is answered by 503.
    "serve.max_waiting": [10_000, "at least 1"],
    # Seconds for a request, which then gets 504; and to finish in the end.
    "serve.timeout": [60.0, "above 0 and at most 1000000"],
}
