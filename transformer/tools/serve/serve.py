"""--mode=serve: answers over HTTP until it is stopped."""

import logging
import signal
import socket
from pathlib import Path

from ml_collections import ConfigDict

from transformer.errors import UserError, check_value, optional
from transformer.models import kernels
from transformer.runtime import paths, progress
from transformer.tools.serve import served
from transformer.workdir.saved_config import read_with_defaults


def serve(config: ConfigDict, workdir: Path) -> None:
    """Serves the workdir's model, and those of `config.serve.also`, until SIGTERM or Ctrl-C.

    Requests in progress are answered first, for at most `config.serve.timeout` seconds; a second
    Ctrl-C ends at once.
    """
    options = config.serve
    check_value("serve.max_lines", options.max_lines, f"at most {options.max_waiting}")
    for module in ("fastapi", "uvicorn", "prometheus_client"):
        optional(module, "fastapi uvicorn prometheus-client", "--mode=serve")
    import uvicorn

    from transformer.tools.serve import application

    folders = [workdir, *map(paths.path, filter(None, map(str.strip, options.also.split(","))))]
    names = [folder.resolve().name for folder in folders]
    if len({*names}) < len(names):
        raise UserError(f"two models have one name, that of their folder: {', '.join(names)}")
    configs = [config, *(read_with_defaults(folder) for folder in folders[1:])]
    for folder, its_config in zip(folders, configs, strict=True):
        if its_config.task != "translation":
            raise UserError(
                f"config.serve.also: {folder} was trained on the task {its_config.task!r}, "
                "expected 'translation'"
            )
    if options.warm_up and not paths.path(options.warm_up).is_file():
        raise UserError(f"config.serve.warm_up={options.warm_up!r} is not a file of lines")
    # About the workdir's dtype only, because the command line sets no keys of `serve.also`.
    kernels.chosen().advise(config.model.get("dtype"))
    # Before loading, which may take minutes: a port in use fails at once, and clients wait.
    listening = listen(options.host, options.port)
    with progress.waiting("compile"):
        models = {
            name: served.load(its_config, folder, name, names, options)
            for name, folder, its_config in zip(names, folders, configs, strict=True)
        }
    server = uvicorn.Server(
        uvicorn.Config(
            application.application(models, options),
            log_config=None,
            log_level="warning",
            access_log=False,
            timeout_keep_alive=75,  # longer than the 60 seconds of proxies
            timeout_graceful_shutdown=int(options.timeout) + 1,
        )
    )
    host, port = listening.getsockname()[:2]
    host = f"[{host}]" if ":" in host else host
    logging.info("%s at http://%s:%d; Ctrl-C ends", ", ".join(names), host, port)

    def stop(number: int, _: object) -> None:
        logging.info("stopping after the requests in progress; a second Ctrl-C ends at once")
        server.force_exit = server.should_exit and number == signal.SIGINT
        server.should_exit = True

    server.handle_exit = stop  # because uvicorn's would raise the signal again after stopping
    server.run(sockets=[listening])
    logging.info("stopped")


def listen(host: str, port: int) -> socket.socket:
    """Returns a socket that listens at an address; UserError if the address is not available."""
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", "") or error
        raise UserError(f"config.serve: cannot listen at {host}:{port}: {reason}") from error
    return listening
