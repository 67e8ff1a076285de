"""What is kept is what was written, or it is made anew; what comes from outside is read or refused
in a line that names it. Random damage comes from seeded generators."""

import codecs
import concurrent.futures
import gzip
import logging
import lzma
import pathlib
import random
import re
import threading
import time
import traceback

import numpy as np
import pytest
from helpers import reversal
from helpers.checkpoints import contents, flip_a_bit, truncate
from helpers.corpora import LENGTH, Source
from helpers.damage import damaged

from transformer.data import batches, packing, text_files
from transformer.data.tokens import tokenise
from transformer.runtime import checksums


def warnings(caplog):
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


@pytest.mark.parametrize("damage", [flip_a_bit, truncate, pathlib.Path.unlink])
def test_damaged_ids_are_named_and_made_anew(tmp_path, monkeypatch, caplog, damage):
    """By each process alone: they come here at different times, an exchange would not end."""
    monkeypatch.setattr(checksums.processes, "gather_shares", None)
    monkeypatch.setattr(checksums.processes, "my_share", None)
    tokens = tokenise(Source(0), reversal.vocabulary(), tmp_path)
    whole = contents(tokens.directory)
    assert tokens.directory / checksums.NAME in whole
    kept = np.array(tokens.sides["source"].ids)
    for file in whole:
        damage(file)
        caplog.clear()
        again = tokenise(Source(0), reversal.vocabulary(), tmp_path)
        assert contents(tokens.directory) == whole
        np.testing.assert_array_equal(again.sides["source"].ids, kept)
        (said,) = warnings(caplog)
        assert str(file) in said
        assert "\n" not in said
        assert list(tmp_path.glob("[!.]*")) == [tokens.directory]


def test_many_who_find_the_ids_damaged_at_once_all_read_whole_ones(tmp_path):
    vocabulary = reversal.vocabulary()
    tokens = tokenise(Source(0), vocabulary, tmp_path)
    whole, expected = contents(tokens.directory), np.array(tokens.sides["source"].ids)
    read = lambda _: np.array(tokenise(Source(0), vocabulary, tmp_path).sides["source"].ids)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            truncate(tokens.directory / "source.ids")
            for found in pool.map(read, range(8)):
                np.testing.assert_array_equal(found, expected)
            assert contents(tokens.directory) == whole
    assert list(tmp_path.glob("[!.]*")) == [tokens.directory]


@pytest.mark.parametrize("damage", [flip_a_bit, truncate, lambda path: path.write_bytes(b"")])
def test_a_damaged_packing_is_named_and_made_anew(tmp_path, caplog, damage):
    """And is no damage to the ids that it lies beside."""
    source, vocabulary = Source(0), reversal.vocabulary()
    tokens = tokenise(source, vocabulary, tmp_path)
    pairs = packing.select_trainable(tokens.lengths, LENGTH)
    pack = lambda: packing.pack(tokens.lengths, pairs, LENGTH, 0, tokens.directory)
    rows, reads = pack(), source.reads
    (path,) = tokens.directory.glob("packed-*/row_of_item.npy")
    whole = path.read_bytes()
    damage(path)
    tokenise(source, vocabulary, tmp_path)
    assert source.reads == reads
    again = pack()
    (said,) = warnings(caplog)
    assert str(path) in said
    assert path.read_bytes() == whole
    np.testing.assert_array_equal(again.items, rows.items)
    np.testing.assert_array_equal(again.offsets, rows.offsets)
    pack()
    assert len(warnings(caplog)) == 1


@pytest.mark.parametrize(
    ("end", "compress"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)]
)
def test_any_corpus_file_gives_its_lines_or_is_refused(tmp_path, end, compress):
    """Only a newline ends a line; a carriage return before it, and a first byte order mark, go."""
    chosen, path, refused, num_read = random.Random(end), tmp_path / f"train.de{end}", [], 0
    characters = "abc äö나🏠\r\u2028\x85\x0b\x0c\x1e\0\ufeff\u00a0"
    for _ in range(400):
        text = ["".join(chosen.choices(characters, k=chosen.randint(0, 40))) for _ in range(99)]
        content = "\n".join(text[: chosen.randint(0, 99)]).encode()
        damage = damaged(chosen, compress(content))
        path.write_bytes(damage)
        try:
            read = list(text_files.lines(path))
            _, count = text_files.digest_and_count(path)
        except ValueError as error:
            refused.append(str(error))
            continue
        num_read += 1
        assert len(read) == count
        # Compressed files carry checks of their content: it comes out unchanged, or it is nothing.
        content = (content if end and read else b"" if end else damage).removeprefix(
            codecs.BOM_UTF8
        )
        expected = [line.removesuffix(b"\r").decode() for line in content.split(b"\n")]
        assert read == expected[: -1 if content[-1:] in (b"", b"\n") else None]
    assert all(re.fullmatch(f".*{re.escape(str(path))}.*", error) for error in refused)
    assert min(len(refused), num_read) > 5


def test_an_error_of_the_loader_is_there_at_once_with_its_own_traceback():
    """Also while the batch after it, which nobody will get, takes for ever."""
    for_ever = threading.Event()

    def explode(t):
        raise OSError(f"batch {t} is gone")

    def load(t):
        return t if t < 1 else explode(t) if t < 2 else for_ever.wait(20)

    found = batches.prefetch(load, range(5))
    next(found)
    start = time.monotonic()
    with pytest.raises(OSError, match="batch 1 is gone") as raised:
        next(found)
    for_ever.set()
    assert time.monotonic() - start < 5
    names = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert names[-2:] == ["load", "explode"]
