"""Standard input, output and error where one of them is closed or does not take what is written."""

import io
import os
import sys
from typing import TextIO

OUTPUT = "standard output"


class _Output(io.FileIO):
    """Standard output: an OSError of it names it, as one of a file names the file."""

    def write(self, content: bytes) -> int | None:
        try:
            return super().write(content)
        except OSError as error:
            error.filename = OUTPUT
            raise


def open_output(descriptor: int) -> TextIO:
    """Returns a sys.stdout that writes to an open file descriptor."""
    file = io.BufferedWriter(_Output(descriptor, "wb", closefd=False))
    like = sys.stdout
    return io.TextIOWrapper(file, like.encoding, like.errors, line_buffering=like.line_buffering)


def prepare() -> None:
    """Sets up the three standard streams. Those that are closed stay None, but for standard error.

    The next file that is opened would take a closed one's descriptor, and get what libraries print:
    /dev/null takes it instead.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    if sys.stdout:
        sys.stdout = open_output(sys.stdout.fileno())
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (to the end)


def finish_output() -> None:
    """Flushes standard output; what it does not take is dropped, or the exit would try again."""
    try:
        if sys.stdout:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
