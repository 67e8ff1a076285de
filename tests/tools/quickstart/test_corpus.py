"""The built-in corpus is generated in memory, and known by its pairs."""

from helpers.corpora import catalogue

from transformer.tools.quickstart import grammar


def test_splits_and_fingerprint_are_of_the_generated_pairs(tmp_path, monkeypatch):
    load = lambda split: catalogue("builtin", split, tmp_path / "data", "en", "ko")
    pairs = grammar.sentence_pairs(grammar.SEED)
    fingerprints = []
    for split, size in grammar.SIZES.items():
        loaded = load(split)
        assert list(zip(*loaded.read(), strict=True)) == [pair[::-1] for pair in pairs[split]]
        assert len(loaded) == size
        fingerprints.append(loaded.fingerprint)
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(grammar, "SEED", 1)
    grammar.corpus.cache_clear()
    fingerprints.append(load("train").fingerprint)
    grammar.corpus.cache_clear()
    assert len({*fingerprints}) == 4
