"""What a masked language model is shown, and what the page says that it guessed."""

import types

import numpy as np
import pytest
from helpers import reversal
from tools.pages import workdirs
from tools.report import insides

from transformer.families.texts import texts
from transformer.tasks import vocabularies
from transformer.tools.report import guesses

TEXTS = ["a b c d e f g h a b c d e f g h a b c d", "c d"]


@pytest.fixture
def run(tmp_path):
    run = workdirs.load(workdirs.write(tmp_path / "run", task="masked_language"))
    insides.write_vocabulary(run, "text.model", reversal.vocabulary_model())
    return run


def test_each_hidden_piece_is_beside_the_likeliest(run):
    vocabulary, seen = vocabularies.read(run.workdir, run.config), []
    likeliest = [vocabulary.encode([x])[0][0] for x in ("g", "b", "a", "c", "e")]

    def apply(_, *, ids, masked, positions, segments, train):
        seen.append((ids[0], masked[0]))
        logits_TV = np.full((masked.shape[1], len(vocabulary)), -20.0)
        logits_TV[:, likeliest] = np.log([0.4, 0.3, 0.15, 0.1, 0.05])
        return logits_TV[None]

    model = types.SimpleNamespace(apply=apply)
    section = guesses.section(insides.inside(run, model, {}, [{"input": text} for text in TEXTS]))
    assert len(seen) == len(TEXTS)
    for text, shown, table in zip(
        TEXTS[::-1], section.parts[1::2], section.parts[2::2], strict=True
    ):
        ids, masked = seen.pop(0)
        words, truth = shown.split(), text.split()
        assert len(words) == len(truth)
        hidden = [i for i, word in enumerate(words) if word == "____"]
        assert len(hidden) == max(1, round(run.config.data.mask_share * len(truth)))
        assert [word for word in words if word != "____"] == [
            word for i, word in enumerate(truth) if i not in hidden
        ]
        assert list(masked - 1) == hidden
        assert np.flatnonzero(ids == texts.MASK).tolist() == masked.tolist()
        shares = {"g": "40%", "b": "30%", "a": "15%", "c": "10%", "e": "5%"}
        for i, row in zip(hidden, table.rows, strict=True):
            assert row[0] == f"{truth[i]} {shares.get(truth[i], '0%')}"
            assert row[1:] == [f"{word} {share}" for word, share in shares.items()]
