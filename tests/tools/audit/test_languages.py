"""Which language a line is in."""

import numpy as np
import pytest

from transformer.tools.audit import scripts


def test_a_line_of_its_own_language_is_no_evidence_and_one_of_another_is():
    german, english, french = "Wo bin ich?", "I have no time.", "Où suis-je maintenant ?"
    lines = [german, english, french, "나는 어디에 있어?", "", "42"]
    to_other, to_likeliest = scripts.evidence(lines, "de", "en")
    assert to_other[0] == to_likeliest[0] == 0
    assert to_other[1] == to_likeliest[1] > np.log(20)  # the likeliest is English
    assert (to_likeliest[2:4] > np.log(100)).all()
    assert to_likeliest[2] > to_other[2]
    assert to_other[4:].tolist() == [0, 0]
    assert (to_likeliest[4:] < 1).all()
    back, _ = scripts.evidence(lines[:2], "en", "de")
    assert back[0] > np.log(20)
    assert back[1] == 0
    to_unknown, to_likeliest = scripts.evidence([french], "de", "xx")
    assert to_unknown[0] == 0
    assert to_likeliest[0] > np.log(100)


NOTHING = "e3b0c44298fc1c149afbf4c8996fb924 27ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize(
    ("line", "codes"),
    [("Where am I?", ("xx", "en")), ("Wo bin ich?", ("xx", "yy")), (NOTHING, ("de", "en"))],
)
def test_of_an_unknown_language_and_of_none_nothing_is_said(line, codes):
    assert scripts.identifier().classify(NOTHING)[0] == scripts.NO_LANGUAGE
    assert not np.any(scripts.evidence([line], *codes))


def test_a_long_line_in_another_language_is_a_finite_number():
    [to_other], _ = scripts.evidence([np.__doc__ * 10], "de", "en")
    assert 20 < to_other < np.inf
