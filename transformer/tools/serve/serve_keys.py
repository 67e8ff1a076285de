"""The keys that only --mode=serve reads."""

from ml_collections import ConfigDict


def keys() -> ConfigDict:
    options = ConfigDict()
    options.host = "127.0.0.1"  # this machine alone; '0.0.0.0': every machine that reaches it
    options.port = 8000  # 0: any free one, which is logged
    options.also = ""  # further trained workdirs, DIR,DIR; a model's name is its folder's
    options.warm_up = ""  # a FILE of typical lines, translated first, so that all is compiled
    options.batch_wait = 0.005  # seconds to wait for more lines, where several came before
    options.batch_lines = 64  # at most, of a batch
    options.max_characters = 100_000  # of a request's texts
    options.max_line = 5_000  # characters of a line
    options.max_lines = 1_000  # of a request; a text may have several
    options.max_waiting = 10_000  # lines of all requests; a request beyond these is answered by 503
    options.timeout = 60.0  # seconds for a request, which then gets 504; and to finish in the end
    return ConfigDict({"serve": options})
