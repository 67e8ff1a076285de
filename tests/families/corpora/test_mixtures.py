"""Several corpora in exact shares of an epoch, with their tags, filters and held-out pairs."""

import collections
import functools
import hashlib
import json
import random
from pathlib import Path

import jax
import numpy as np
import pytest
from helpers import tiny
from helpers.batching import assert_hosts_share, batches_of_a_run, sentences_of
from helpers.corpora import lines
from helpers.corpora import text as random_text

from configs import parallel_text
from transformer.data import packing, tokenizer
from transformer.data.batches import Batches
from transformer.errors import UserError
from transformer.tasks import splits, translation

SMALL = {"data.source_language": "de", "data.target_language": "en", "data.batch_tokens": 256}
SMALL |= {"data.max_length": 32, "data.row_length": 32, "vocabulary.max_sentences": 200}
SMALL |= {"data.train": "mixture.toml", "data.validation": "", "data.test": ""}
SMALL["vocabulary.size"] = 330


@pytest.fixture
def config_of(tmp_path):
    """A function of a mixture's TOML and {config key: value}: a config of a small run.

    Its folder has corpora of 300 and 70 pairs.
    """
    for stem, seed, count in (("train", 1, 300), ("small", 3, 70)):
        for language, n in (("de", seed), ("en", seed + 1)):
            (tmp_path / f"{stem}.{language}").write_bytes(lines(random_text(n, count)))

    def configure(toml="", **changes):
        (tmp_path / "mixture.toml").write_text(toml)
        config = parallel_text.get_config()
        where = {"data.directory": str(tmp_path), "data.data_dir": str(tmp_path / "data")}
        config.update_from_flattened_dict(SMALL | where | changes)
        return config

    return configure


def table(name, **fields):
    """The TOML of a corpus."""
    return f"[{name}]\n" + "".join(f"{x} = {json.dumps(y)}\n" for x, y in fields.items())


TWO = table("large", files="train", tag="<2en>", weight=1.0, held_out=20)
TWO += table("small", files="small", tag="<small>", weight=1, held_out=5)
TRAIN = table("a", files="train")
PACKED = pytest.mark.parametrize("pack", [True, False], ids=["packed", "unpacked"])


def test_without_a_mixture_nothing_has_changed(config_of, tmp_path):
    """Vocabulary, names of caches, and batches are those of the time before mixtures."""
    for language, seed in (("de", 1), ("en", 2)):
        (tmp_path / f"validation.{language}").write_bytes(lines(random_text(seed, 20)))
    changes = {"data.train": "train", "data.validation": "validation", "vocabulary.size": 320}
    for pack, expected in ((True, "b8f9cf394a7c8937"), (False, "aaa869c99f496568")):
        batched, vocabulary = batches_of_a_run(config_of(**changes, **{"data.pack": pack}))
        chosen = [batched[t] for t in (0, 7, len(batched) + 1)]
        content = b"".join(x.tobytes() for x in jax.tree.leaves(chosen))
        assert hashlib.sha256(content).hexdigest()[:16] == expected
        assert vocabulary.fingerprint == "95f88faca003fe40nfc"
    names = {x.name for x in tmp_path.glob("data/tokens/**/*") if x.is_dir()}
    assert names == {"0ded2ccc109ca30b", "99f58be139b9cb68", "packed-38282fff10fcbedc"}


@PACKED
def test_a_mixture_of_one_corpus_is_that_corpus(config_of, pack):
    changes = {"data.validation": "small", "data.pack": pack}
    mixed, vocabulary = batches_of_a_run(config_of(TRAIN, **changes))
    alone, same = batches_of_a_run(config_of(**changes, **{"data.train": "train"}))
    assert vocabulary.fingerprint == same.fingerprint
    for t in range(3 * len(alone)):
        tiny.assert_same_bits(alone[t], mixed[t])


@pytest.mark.parametrize("num_lengths", [1, 2])
@pytest.mark.parametrize("seed", range(8))
def test_shares_are_exact_and_a_corpus_is_read_whole_before_it_begins_again(seed, num_lengths):
    """Of random corpora, weights and temperatures, in rows of one length or two."""
    draw = random.Random(seed)
    sizes = [draw.choice([1, 3, 40, 500]) for _ in range(draw.randint(1, 4))] + [500]
    weights = [draw.choice([0.3, 1, 7]) if seed % 2 else 0 for _ in sizes]
    part = {"name": "", "temperature": draw.choice([1.0, 5.0])}
    parts = [part | {"size": x, "weight": w} for x, w in zip(sizes, weights, strict=True)]
    shares = np.array(weights if seed % 2 else sizes) ** (1 / part["temperature"])
    exact = shares / shares.sum() * sum(sizes)

    def rows_of(items):
        groups = [(8 * (i + 1), items[i::num_lengths]) for i in range(num_lengths)]
        return [packing.Rows(n, x, np.arange(len(x) + 1)) for n, x in groups if len(x)]

    groups = packing.mix(parts, np.arange(sum(sizes)), rows_of)
    batched = Batches(groups, 24, seed, lambda items, *_: items)
    owner, reads = np.repeat(np.arange(len(sizes)), sizes), collections.Counter()
    for epoch in range(5):
        numbers = range(epoch * len(batched), (epoch + 1) * len(batched))
        items = np.concatenate([batched[t] for t in numbers])
        counts = np.bincount(owner[items], minlength=len(sizes))
        # By largest remainder: those that are rounded up have the larger remainders.
        assert counts.sum() == sum(sizes)
        assert (abs(counts - exact) < 1 + 1e-9).all()
        up = counts > exact
        assert min((exact % 1)[up], default=1) >= max((exact % 1)[~up], default=0) - 1e-9
        reads.update(items.tolist())
        for c in range(len(sizes)):
            for group in rows_of(np.flatnonzero(owner == c)):
                times = [reads[i] for i in group.items.tolist()]
                assert max(times) - min(times) <= 1
    halves = {tuple(packing.rows_of_epoch([(40, 20)], epoch, seed)) for epoch in range(6)}
    assert len(halves) == 6  # each pass has another order


@PACKED
def test_a_batch_is_the_same_from_start_or_middle_and_on_any_hosts(config_of, pack):
    config = config_of(TWO, **{"data.pack": pack})
    whole, vocabulary = batches_of_a_run(config)
    tags = vocabulary.source.processor.piece_to_id(["▁<2en>", "▁<small>"])
    from_start = [whole[t] for t in range(3 * len(whole))]
    for epoch in range(3):
        read = from_start[epoch * len(whole) : (epoch + 1) * len(whole)]
        firsts = [row[0] for batch in read for row in batch["inputs"]["source"] if row[0]]
        assert abs(firsts.count(tags[0]) - firsts.count(tags[1])) <= 1  # with equal weights
        assert len(firsts) == sum(map(len, whole.groups))
        assert len(firsts) == sum(whole.num_filled(t) for t in range(len(whole)))
        for source, _ in (pair for batch in read for pair in sentences_of(batch)):
            assert source[0] in tags
            assert not {*source[1:]} & {*tags}
    for t in (len(from_start) - 1, 0, len(whole) + 1):
        resumed, _ = batches_of_a_run(config)
        assert_hosts_share(resumed, t, resumed.shape(t)[0])
        tiny.assert_same_bits(resumed[t], from_start[t])


def test_held_out_pairs_are_for_validation(config_of):
    """The others are for training; of corpora with as many pairs, the same lines are held out."""
    two = lambda **fields: table("a", **fields) + table("b", tag="<b>", **fields)
    config = config_of(two(files="train", held_out=150))
    train, held_out = (splits.pairs(config, split) for split in ("train", "validation"))
    sources, texts = train.read()[0], held_out.read()[0]
    assert len(sources) == len(texts) == 300
    assert texts[150:] == [f"<b> {text}" for text in texts[:150]]
    everything = Path(config.data.directory, "train.de").read_text().splitlines()
    assert sorted(sources[:150] + texts[:150]) == sorted(everything)
    other = splits.pairs(config_of(two(files="train", held_out=150, seed=1)), "validation")
    assert other.read()[0] != texts
    assert len({x.fingerprint for x in (train, held_out, other)}) == 3


def test_filters_drop_pairs_of_their_corpus(config_of, tmp_path, caplog):
    """By the characters of either side. A blank source has no tag, so that it is dropped later."""
    (tmp_path / "x.l1").write_bytes(lines(["bb", "aaaa", "aaaaaaaaa", "", "aa"]))
    (tmp_path / "x.l2").write_bytes(lines(["b", "b", "b", "b", "bbbbbb"]))
    toml = functools.partial(table, "x", files="x", languages=["l1", "l2"], tag="<x>")
    read = lambda **filters: splits.pairs(config_of(toml(**filters)), "train").read()[0]
    assert read(max_characters=5) == ["<x> bb", "<x> aaaa", ""]
    assert read(max_ratio=3.0) == ["<x> bb", "", "<x> aa"]
    with caplog.at_level("INFO"):
        assert read(max_characters=3, max_ratio=9) == ["<x> bb", ""]
    assert "mixture.toml: x.max_characters and max_ratio drop 3 of 5 pairs" in caplog.text


def test_a_tag_is_a_piece_that_is_learnt_and_never_split(config_of):
    config = config_of(TWO)
    side = batches_of_a_run(config)[1].source
    assert tokenizer.tags(side) == ["<2en>", "<small>"]
    assert side.pieces(side.encode(["<2en> be ver"])[0])[0] == "▁<2en>"
    assert len(side.encode(["<2de>"])[0]) > 5
    split = {"vocabulary.shared": False, "vocabulary.size": 310}
    source, target = batches_of_a_run(config_of(TWO, **split))[1]
    assert (tokenizer.tags(source), tokenizer.tags(target)) == (["<2en>", "<small>"], [])
    # Another run's vocabulary must have the tags.
    split["vocabulary.model"] = f"{config.data.directory}/run/vocabulary"
    with pytest.raises(UserError, match=r"\Athe vocabulary lacks \['<2fr>'\] of .*toml: a tag is"):
        batches_of_a_run(config_of(TWO.replace("2en", "2fr"), **split))


def test_the_vocabulary_is_learnt_from_the_mixture(config_of, tmp_path):
    """A corpus counts as often as it is read."""
    (tmp_path / "z.tsv").write_bytes(lines(["qqqq zz\tqqqq zz"] * 4))
    toml = lambda x: f"{TRAIN}weight = 1" + "\n" + table("z", files="z.tsv", weight=x, held_out=1)
    learnt = [batches_of_a_run(config_of(toml(weight)))[1].source for weight in (0.001, 3)]
    assert ["▁qqqq" in side.pieces(range(len(side))) for side in learnt] == [False, True]


def test_each_source_of_an_evaluation_has_one_tag(config_of, monkeypatch):
    """Its corpus's own if it is held out of the mixture, or else decode.tag."""
    config = config_of(TWO, **{"data.test": "small", "decode.tag": "<2en>"})
    vocabulary, counts, read = batches_of_a_run(config)[1], [], splits.evaluation_tokens
    count = lambda ids, tag: vocabulary.source.pieces(ids).count(f"▁{tag}")

    def counted(*given):
        ids = (tokens := read(*given)).sides["source"].ids
        counts.append([count(ids, "<2en>"), count(ids, "<small>")])
        return tokens

    monkeypatch.setattr(splits, "evaluation_tokens", counted)
    model = translation.model(config, translation.sizes_of(vocabulary))
    tags = []
    for split in ("validation", "test"):
        given = config, splits.pairs(config, split), vocabulary, model, split
        evaluation = translation.evaluate_pairs(*given, dataset={}, score=dict, rows=dict)
        tags.append(evaluation.settings["decode"]["tag"])
    assert (tags, counts) == (["", "<2en>"], [[20, 5], [70, 0]])


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("[a", "data.train='mixture.toml' is not a TOML file: Expected"),
        ("", r"data.train has no pairs: mixture.toml needs a table \[CORPUS\]"),
        (TRAIN + 'weight = 2\n[b]\nfiles="small"', "either all corpora a weight above 0, or none"),
        ("temperature = 0.5", "toml: temperature must be a finite number >= 1.0, found 0.5"),
        ('[a]\nfile = "train"', "toml: a.file is unknown, expected .*; did you mean files"),
        ("[a]\nfiles = 3", "toml: a.files must be a string, found 3"),
        ('[a]\nfiles = "gone"', "a.files='gone': expected one of .*gone.de, .*, found none"),
        ('[a]\nfiles = "b.toml"', "a.files must not be a mixture, found 'b.toml'"),
        (TRAIN + "weight = nan", "a.weight must be a finite number >= 0.0, found nan"),
        (TRAIN + "weight = inf", "a.weight must be a finite number >= 0.0, found inf"),
        (TRAIN + "held_out = true", "a.held_out must be an integer >= 0, found True"),
        (TRAIN + "held_out = 300", "a.held_out must be below 300, its pairs, found 300"),
        (TRAIN + 'languages = ["de"]', "two different codes"),
        (TRAIN + 'languages = ["de", "en", "de"]', "two different codes, found .'de', 'en', 'de'."),
    ],
)
def test_a_mixture_that_cannot_be_read_is_one_line(config_of, toml, words):
    with pytest.raises(UserError, match=rf"\A.*{words}.*\Z"):
        splits.pairs(config_of(toml), "train")


def test_a_corpus_without_a_pair_is_one_line(config_of, tmp_path):
    """To hold out, or to train on."""
    validation = r"has no pairs: .* a table \[CORPUS\] with held_out, or its filters drop all\Z"
    with pytest.raises(UserError, match=rf"\Aconfig.data.validation {validation}"):
        splits.pairs(config_of(TRAIN), "validation")
    with pytest.raises(UserError, match=r"\Aconfig.data.validation='': expected one of"):
        splits.pairs(config_of(**{"data.train": "train"}), "validation")
    (tmp_path / "blank.tsv").write_text("a\t\n")
    with pytest.raises(UserError, match=r"\Athe corpus blank has no pair to train on\Z"):
        batches_of_a_run(config_of(TWO + table("blank", files="blank.tsv", weight=1)))
