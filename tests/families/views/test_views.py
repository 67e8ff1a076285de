"""Views draw in the shares that their fields say, and keep what a reader of the text needs."""

import collections
import itertools
from random import Random

from transformer.families.views import views

DISTINCT = "".join(chr(0x4E00 + i) for i in range(20_000))  # letters, each once


def test_case_draws_capitals_of_both_sides_and_lower_case_of_the_source():
    random, pair = Random(0), ("Die Straße 나", "The Street")
    drawn = collections.Counter(views.case(0.3, 0.2).texts(*pair, random) for _ in range(20_000))
    shares = {
        ("DIE STRASSE 나", "THE STREET"): 0.3,
        ("die straße 나", "The Street"): 0.2,
        pair: 0.5,
    }
    assert drawn.keys() == shares.keys()
    assert all(abs(drawn[x] / 20_000 - share) < 0.02 for x, share in shares.items())


def test_typing_errors_have_their_rate_and_spare_digits_and_short_texts():
    random = Random(0)
    counts = collections.Counter(wrong := views.misspelt(DISTINCT, 0.05, random))
    # An error changes how often one letter occurs; a replacement of two, a swap of none.
    assert abs(sum(counts[x] != 1 for x in DISTINCT) / len(DISTINCT) - 0.05) < 0.005
    swaps = sum(x > y for x, y in itertools.pairwise(x for x in wrong if counts[x] == 1))
    assert abs(swaps / len(DISTINCT) - 0.05 / 4) < 0.003
    assert {views.misspelt("2 019, A3!", 1.0, random) for _ in range(99)} == {"2 019, A3!"}
    assert all(views.misspelt("a", 1.0, random).strip() for _ in range(99))
    wrong = [views.misspelt("MP3 a 5", 1.0, random) for _ in range(99)]
    assert all("P3 " in x and x.endswith(" 5") for x in wrong)
    pairs = [views.typos(0.3, 1.0).texts(DISTINCT[:9], "target", random) for _ in range(2000)]
    assert {target for _, target in pairs} == {"target"}
    assert abs(sum(source != DISTINCT[:9] for source, _ in pairs) / 2000 - 0.3) < 0.04
