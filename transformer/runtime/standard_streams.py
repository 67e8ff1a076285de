"""Standard input, output and error, some of which may be closed, broken or on a full disk."""

import io
import os
import sys
from typing import TextIO

OUTPUT = "standard output"


class _Output(io.FileIO):
    """A raw standard output whose OSErrors have OUTPUT as their file name."""

    def write(self, content: bytes) -> int | None:
        try:
            return super().write(content)
        except OSError as error:
            error.filename = OUTPUT
            raise


def open_output(descriptor: int) -> TextIO:
    """Returns a stream like sys.stdout that writes to an open file descriptor."""
    file = io.BufferedWriter(_Output(descriptor, "wb", closefd=False))
    like = sys.stdout
    return io.TextIOWrapper(file, like.encoding, like.errors, line_buffering=like.line_buffering)


def prepare() -> None:
    """Sets up the three standard streams; a closed input or output stays None in `sys`.

    Closed descriptors are opened on /dev/null. Otherwise the next file to be opened would get
    number 1 or 2, and libraries would print into it.
    """
    # os.open returns the lowest free number: 0, 1 and 2 are all in use once it returns 3.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    if sys.stdout:
        sys.stdout = open_output(sys.stdout.fileno())
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (to the end)


def finish_output() -> None:
    """Flushes standard output, and discards what cannot be written.

    Python flushes once more on exit, which would fail if that output were still buffered.
    """
    try:
        if sys.stdout:
            sys.stdout.flush()
    except OSError:
        # From here on the descriptor leads to /dev/null, and so does the flush on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
