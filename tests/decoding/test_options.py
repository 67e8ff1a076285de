"""Values of config.decode that cannot work are one line, when a translator is built."""

import pytest
from helpers.decoders import DECODE, build


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("method", "beem", ["'beam', 'sample', 'mbr'", "'beem'"]),
        ("beam_width", 0, ["at least 1", "0"]),
        ("length_penalty", "gnm", ["gnmt", "power", "none", "'gnm'"]),
        ("stopping", "first", ["'best', 'full', 'ahead'", "'first'"]),
        ("length_alpha", -0.1, ["at least 0", "-0.1"]),
        ("length_alpha", float("nan"), ["at least 0", "nan"]),
        ("length_alpha", float("inf"), ["below 2^31", "inf"]),
        ("num_hypotheses", 0, ["at least 1"]),
        ("num_hypotheses", 5, ["=5", "config.decode.beam_width=4"]),
        ("num_samples", 0, ["at least 1"]),
        ("temperature", 0.0, ["above 0"]),
        ("temperature", -1.0, ["above 0"]),
        ("temperature", float("nan"), ["above 0"]),
        ("temperature", float("inf"), ["at most 1000"]),
        ("top_k", -1, ["at least 0"]),
        ("top_p", 0.0, ["above 0", "at most 1"]),
        ("top_p", 1.1, ["at most 1", "1.1"]),
        ("seed", -1, ["at least 0"]),
        ("seed", 2**31, ["below 2^31"]),
        ("utility", "ter", ["'chrf', 'bleu'", "'ter'"]),
        ("min_length", -1, ["at least 0"]),
        ("extra_length", 0, ["at least 1"]),
        ("max_length", 15, ["at least 16", "15"]),
        ("batch_tokens", 0, ["at least 1"]),
        ("chunk_lines", 0, ["at least 1"]),
        ("workers", -1, ["at least 0"]),
    ],
)
def test_a_value_that_cannot_work(key, value, words, untrained):
    with pytest.raises(ValueError, match=rf"\Aconfig\.decode\.{key}\b.*\Z") as error:
        build(untrained[0], **{key: value})
    for word in words:
        assert word in str(error.value)


def test_every_key_of_the_config_is_checked_or_taken():
    """The test above has a wrong value for each key."""
    [mark] = [m for m in test_a_value_that_cannot_work.pytestmark if m.name == "parametrize"]
    assert {key for key, *_ in mark.args[1]} == set(DECODE)


def test_mbr_gives_no_more_than_its_samples(untrained):
    with pytest.raises(ValueError, match=r"num_hypotheses=5.*config\.decode\.num_samples=4"):
        build(untrained[0], method="mbr", num_samples=4, num_hypotheses=5)
    build(untrained[0], method="sample", num_hypotheses=5)  # as many as one likes
