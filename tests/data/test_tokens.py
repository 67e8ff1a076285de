"""A corpus's ids are written once; no half-written cache is ever read or left."""

import itertools

import numpy as np
import pytest
from helpers.corpora import LENGTH, Source

from transformer.data import packing, tokenizer
from transformer.data.tokens import tokenise


def test_second_call_reads_the_cache(tokenised):
    source = Source(0)
    first = tokenised(source)
    assert source.reads == 1
    second = tokenised(source)
    assert source.reads == 1
    assert second.directory == first.directory
    for name in ("source", "target"):
        for x, y in zip(first.sides[name], second.sides[name], strict=True):
            np.testing.assert_array_equal(x, y)


def test_cache_is_keyed_by_content(tokenised, vocabulary, tmp_path):
    folders = {tokenised(Source(seed)).directory for seed in (0, 1)}
    swapped = tokenizer.Vocabulary(vocabulary.target, vocabulary.source)
    for other in (swapped, tokenizer.Vocabulary(vocabulary.source, vocabulary.source)):
        folders.add(tokenise(Source(0), other, tmp_path).directory)
    assert len(folders) == 4
    assert set(tmp_path.glob("[!.]*")) == folders
    same = Source(2)
    same.fingerprint = Source(0).fingerprint  # the name alone counts
    assert tokenised(same).directory in folders
    assert not same.reads


def test_a_full_disk_is_an_error_and_leaves_nothing(vocabulary, tmp_path, no_file_over):
    with no_file_over(1000), pytest.raises(OSError, match="File too large"):
        tokenise(Source(0), vocabulary, tmp_path)
    assert not list(tmp_path.glob("[!.]*"))
    tokens = tokenise(Source(0), vocabulary, tmp_path)
    pairs = packing.select_trainable(tokens.lengths, LENGTH)
    with no_file_over(100), pytest.raises(OSError, match="File too large"):
        packing.pack(tokens.lengths, pairs, LENGTH, 0, tokens.directory)
    assert not list(tokens.directory.glob("packed*"))


class Lines:
    """Plain text, which has one side."""

    fingerprint = "lines"

    def __init__(self, lines):
        self.lines = lines

    def __len__(self):
        return len(self.lines)

    def chunks(self):
        yield (self.lines[:8192],)
        yield (self.lines[8192:],)


def test_plain_text_has_one_side(vocabulary, tmp_path):
    lines = ["abc d", "", "fed"] * 3000  # more than a chunk
    encoder = vocabulary.source
    tokens = tokenise(Lines(lines), encoder, tmp_path)
    [(name, side)] = tokens.sides.items()
    assert name == "text"
    items = [side.ids[start:stop] for start, stop in itertools.pairwise(side.offsets)]
    assert [ids.tolist() for ids in items] == encoder.encode(lines)
    assert encoder.decode(items) == lines
    np.testing.assert_array_equal(tokens.lengths, [side.lengths])
