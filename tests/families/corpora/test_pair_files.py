"""Pairs in one file are those of two files; a file without pairs is a UserError of one line."""

import gzip
import io
import json

import pyarrow
import pytest
from helpers.corpora import ENGLISH, GERMAN, lines
from pyarrow import parquet

from transformer.data import corpora
from transformer.errors import UserError


@pytest.fixture
def text(tmp_path):
    """A function that writes {name: bytes}, and reads a split of them."""

    def read(files=(), split="a", source="de", target="en"):
        for name, content in dict(files).items():
            (tmp_path / name).write_bytes(content)
        return corpora.parallel_text(tmp_path, split, (source, target), "config.data.train")

    return read


def test_pairs_in_one_file_are_those_of_two_files(text):
    """In either direction; the columns of a .tsv are source and target."""
    pairs = list(zip(GERMAN, ENGLISH, strict=True))
    records = [{"id": 7, "de": x, "en": y} for x, y in pairs]
    nested = [{"translation": record} for record in records]
    table = "".join(f"{x}\t{y}\tmore\n" for x, y in pairs).encode()
    files = {"a.tsv": table, "b.tsv.gz": gzip.compress(table)}
    for name, some in (("c", records), ("d", nested)):
        files[f"{name}.jsonl"] = lines(map(json.dumps, some))
        parquet.write_table(pyarrow.Table.from_pylist(some), file := io.BytesIO())
        files[f"{name}.parquet"] = file.getvalue()
    text(files | {"a.de": lines(GERMAN), "a.en": lines(ENGLISH)}, split="a")
    for name in files:
        corpus = text(split=name)
        assert corpus.read() == (GERMAN, ENGLISH)
        assert corpus.size == len(GERMAN)
        assert list(corpus.items([1, 1, 3])) == [pairs[1], pairs[1], pairs[3]]
        if ".tsv" not in name:
            assert text(split=name, source="en", target="de").read() == (ENGLISH, GERMAN)
    odd = text({"e.jsonl": b'{"de": "a\\r\\nb\\ud800", "en": "c"}'}, split="e.jsonl")
    assert odd.read() == (["a b?"], ["c"])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.tsv", b"a\tb\nc\n", "pair 2: expected SOURCE<tab>TARGET, found 'c'"),
        ("a.jsonl", b'{"de": "a", "en": 3}', "pair 1: expected texts de and en, found .*3"),
        ("a.jsonl", b'["a", "b"]', "pair 1: expected texts de and en"),
        ("a.jsonl", b"a", "pair 1: expected texts de and en, found 'a'"),
        ("a.tsv.gz", b"a\tb", "a.tsv.gz is corrupt"),
        ("a.parquet", b"PAR1", "a.parquet is not a Parquet file"),
        ("a.tsv", b"", "a.tsv has no pairs"),
    ],
)
def test_a_file_without_pairs_is_one_line(text, name, content, words):
    with pytest.raises(UserError, match=rf"\A.*{words}.*\Z"):
        text({name: content}, split=name)


def test_a_missing_file_is_one_line(text):
    with pytest.raises(UserError, match=r"config.data.train='a.tsv': \S*a.tsv does not exist"):
        text(split="a.tsv")
