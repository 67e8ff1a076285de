"""Which language a line is in."""

import numpy as np
import pytest

from transformer.tools.audit import languages


def test_a_line_of_its_own_language_is_no_evidence_and_one_of_another_is():
    lines = [
        "Wo bin ich?",
        "I have no time.",
        "Où suis-je maintenant ?",
        "나는 어디에 있어?",
        "",
        "42",
    ]
    to_other, to_likeliest = languages.evidence(lines, "de", "en")
    assert to_other[0] == to_likeliest[0] == 0
    assert to_other[1] == to_likeliest[1] > np.log(20)  # the likeliest is English
    assert to_likeliest[2] > np.log(100)
    assert to_likeliest[2] > to_other[2]
    assert to_likeliest[3] > np.log(100)
    assert to_other[4:].tolist() == [0, 0]
    assert (to_likeliest[4:] < 1).all()
    back, _ = languages.evidence(lines[:2], "en", "de")
    assert back[0] > np.log(20)
    assert back[1] == 0


@pytest.mark.parametrize("codes", [("xx", "en"), ("xx", "yy")])
def test_of_a_language_that_is_not_known_nothing_is_said(codes):
    assert not np.any(languages.evidence(["Where am I?", "Wo bin ich?"], *codes))


def test_a_third_language_is_found_beside_one_that_is_not_known():
    to_other, to_likeliest = languages.evidence(["Où suis-je maintenant ?"], "de", "xx")
    assert to_other[0] == 0
    assert to_likeliest[0] > np.log(100)


def test_a_long_line_in_another_language_is_a_finite_number():
    [to_other], _ = languages.evidence([np.__doc__ * 10], "de", "en")
    assert 20 < to_other < np.inf


def test_text_in_no_language_is_no_evidence():
    line = "e3b0c44298fc1c149afbf4c8996fb924 27ae41e4649b934ca495991b7852b855"
    assert languages.identifier().classify(line)[0] == languages.NO_LANGUAGE
    assert not np.any(languages.evidence([line], "de", "en"))
