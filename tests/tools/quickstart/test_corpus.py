"""The built-in corpus has another name when anything that its pairs depend on changes."""

from transformer.tools.quickstart import corpus, grammar, lexicon


def test_the_name_follows_words_and_seed(tmp_path, monkeypatch):
    names = [corpus.corpus().name]
    (tmp_path / "lexicon.tsv").write_text(lexicon.FILE.read_text().replace("apple", "pear"))
    monkeypatch.setattr(lexicon, "FILE", tmp_path / "lexicon.tsv")
    names.append(corpus.corpus().name)
    monkeypatch.setattr(grammar, "SEED", 1)
    names.append(corpus.corpus().name)
    assert len({*names}) == 3
