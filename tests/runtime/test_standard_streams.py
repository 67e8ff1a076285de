"""Standard streams that are closed or full."""

import os
import subprocess
import sys

import pytest

from transformer.runtime import standard_streams


def test_no_file_takes_the_place_of_a_closed_stream(tmp_path):
    """Libraries would print into it."""
    code = f"""if True:
        import os, sys
        from transformer.runtime import standard_streams
        standard_streams.prepare()
        print("unheard", file=sys.stderr)
        assert sys.stdin is None and sys.stdout is None
        with open({str(tmp_path / "numbers")!r}, "w") as file:
            null = os.stat(os.devnull).st_rdev
            print(file.fileno(), *(os.fstat(i).st_rdev == null for i in range(3)), file=file)
    """
    command = ["sh", "-c", 'exec "$0" -c "$1" <&- >&- 2>&-', sys.executable, code]
    assert subprocess.run(command, check=False).returncode == 0
    number, *null = (tmp_path / "numbers").read_text().split()
    assert int(number) > 2
    assert null == ["True"] * 3


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has it")
def test_output_that_cannot_be_written_is_named_and_then_discarded(monkeypatch):
    with open("/dev/full", "w") as full:
        output = standard_streams.open_output(os.dup(full.fileno()))
    monkeypatch.setattr(sys, "stdout", output)
    print("result")
    with pytest.raises(OSError, match="No space left on device") as error:
        sys.stdout.flush()
    assert error.value.filename == standard_streams.OUTPUT
    standard_streams.finish_output()
    sys.stdout.flush()  # as Python does on exit
    output.close()


def test_results_reach_an_open_descriptor(tmp_path, monkeypatch):
    """The descriptor stays open for others when the stream is closed."""
    with open(tmp_path / "results", "wb") as file:
        with standard_streams.open_output(file.fileno()) as output:
            monkeypatch.setattr(sys, "stdout", output)
            print("결과")
            standard_streams.finish_output()
            assert (tmp_path / "results").read_text() == "결과\n"
        os.write(file.fileno(), b"more\n")
    assert (tmp_path / "results").read_text() == "결과\nmore\n"
