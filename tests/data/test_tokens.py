"""A corpus's ids are written once; no half-written cache is ever read or left."""

import itertools

import numpy as np
from helpers.corpora import Source, lines

from transformer.data import corpora, tokenizer
from transformer.data.tokens import tokenise


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


def test_plain_text_has_one_side(vocabulary, tmp_path):
    texts = ["abc d", "", "fed"] * 3000  # more than a chunk
    (tmp_path / "all.txt").write_bytes(lines(texts))
    corpus = corpora.load_text("all.txt", directory=str(tmp_path), key="split")
    encoder = vocabulary.source
    tokens = tokenise(corpus, encoder, tmp_path)
    [(name, side)] = tokens.sides.items()
    assert name == "text"
    items = [side.ids[start:stop] for start, stop in itertools.pairwise(side.offsets)]
    assert [ids.tolist() for ids in items] == encoder.encode(texts)
    assert encoder.decode(items) == texts
    np.testing.assert_array_equal(tokens.lengths, [side.lengths])
