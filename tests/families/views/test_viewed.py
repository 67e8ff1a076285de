"""Epoch e has every pair once, as its view e mod K; batches are pure, whatever the view."""

import collections

import pytest
from helpers import tiny
from helpers.batching import assert_hosts_share, batches_of_a_run, sentences_of
from helpers.corpora import lines, text

from configs import parallel_text
from transformer.data import corpora
from transformer.errors import UserError
from transformer.tasks import splits, translation

VIEWS = "case(capitals=0.3, lower=0.2),typos(share=0.4, rate=0.2)"
SMALL = {"data.source_language": "de", "data.target_language": "en", "data.batch_tokens": 480}
SMALL |= {"data.max_length": 120, "data.row_length": 120, "data.validation": "train"}
SMALL |= {"vocabulary.size": 320, "data.num_views": 3, "data.views": VIEWS, "data.test": ""}
UNPACKED = {"data.pack": False, "data.views": "subwords"}
MIXTURE = {"data.train": "mixture.toml", "vocabulary.kind": "unigram"}
VIEWED = pytest.mark.parametrize("changes", [{}, UNPACKED, MIXTURE], ids=str)


@pytest.fixture
def config_of(tmp_path):
    """A function of {config key: value} that returns the config of a run on 300 pairs."""
    for language, seed in (("de", 1), ("en", 2)):
        (tmp_path / f"train.{language}").write_bytes(lines(text(seed, 300)))
    (tmp_path / "mixture.toml").write_text('[a]\nfiles = "train"\ntag = "<2en>"\n')

    def configure(**changes):
        config = parallel_text.get_config()
        where = {"data.directory": str(tmp_path), "data.data_dir": str(tmp_path / "data")}
        config.update_from_flattened_dict(SMALL | where | changes)
        return config.copy_and_resolve_references()

    return configure


@VIEWED
def test_an_epoch_has_every_pair_once_as_its_view(config_of, changes):
    batched, vocabulary = batches_of_a_run(config := config_of(**changes))
    viewed = splits.viewed(config, splits.pairs(config, "train"))
    texts = [*zip(*viewed.read(), strict=True)]
    assert [*viewed.items(range(250, 700, 3))] == texts[250:700:3]  # an item draws for itself
    start, ids, lengths = 0, [], set()
    for e in range(4):
        numbers = range(start, start := start + len(batched.views[e % 3]))
        ids.append([pair for t in numbers for pair in sentences_of(batched[t])])
        lengths |= {batched.shape(t)[1] for t in numbers}
        sides = zip(vocabulary, zip(*ids[e], strict=True), strict=True)
        decoded = zip(*(side.decode(x) for side, x in sides), strict=True)
        # SentencePiece has one space where a typing error leaves two.
        cleaned = lambda pair: tuple(" ".join(side.split()) for side in pair)
        expected = map(cleaned, texts[e % 3 * 300 : (e % 3 + 1) * 300])
        assert collections.Counter(decoded) == collections.Counter(expected)
    assert ids[0] != ids[3]
    assert sorted(ids[0]) == sorted(ids[3]) != sorted(ids[1])
    firsts = [batched.shape(t)[1] for t in batched.first_of_each_length()]
    assert firsts == sorted(lengths, reverse=True)
    assert all(x.startswith("<2en> ") == ("data.train" in changes) for x, _ in texts)


@VIEWED
def test_a_batch_is_the_same_from_start_or_middle_and_on_any_hosts(config_of, changes, monkeypatch):
    """Whatever the chunks in which the corpus was tokenised."""
    whole, _ = batches_of_a_run(config := config_of(**changes))
    from_start = [whole[t] for t in range(4 * len(whole))]
    monkeypatch.setattr(corpora, "CHUNK", 7)
    config.data.data_dir += "-again"  # tokenised anew
    resumed, _ = batches_of_a_run(config)
    for t in (len(from_start) - 1, 0, len(whole) + 1):
        assert_hosts_share(resumed, t, resumed.shape(t)[0])
    for t, batch in enumerate(from_start):
        tiny.assert_same_bits(resumed[t], batch)


WRONG = {
    "tpos": "config.data.views must be one of 'case', .*; did you mean typos.",
    "case(capitals=0.7, lower=0.4)": "lower of case must be at least 0 and at most 0.3, found 0.4",
    "typos(rate=2)": "data.views: rate of typos must be at least 0 and at most 1, found 2.0",
    "subwords": "vocabulary.kind of sub-words must be one of 'bpe', 'unigram', found 'table'",
}


@pytest.mark.parametrize("views", WRONG)
def test_views_that_cannot_be_drawn_are_one_line(config_of, views):
    with pytest.raises(UserError, match=rf"\A.*{WRONG[views]}\Z"):
        translation.check(config_of(**{"data.views": views, "vocabulary.kind": "table"}))
