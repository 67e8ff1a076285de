"""What a masked language model is shown, and what the page says that it guessed."""

import types

import numpy as np
from helpers import reversal
from tools.pages import golden, workdirs
from tools.report import insides

from transformer.families.texts import texts
from transformer.tasks import vocabularies
from transformer.tools.pages import page
from transformer.tools.report import guesses

TEXTS = ["a b c d e f g h a b c d e f g h a b c d", "c d"]


def test_each_hidden_piece_is_beside_the_likeliest(tmp_path):
    """And the model sees the mask where the page has a gap."""
    run = workdirs.load(workdirs.write(tmp_path / "run", task="masked_language"))
    insides.write_vocabulary(run, "text.model", reversal.vocabulary_model())
    vocabulary, seen = vocabularies.read(run.workdir, run.config), []
    likeliest = [vocabulary.encode([x])[0][0] for x in ("g", "b", "a", "c", "e")]

    def apply(_, *, ids, masked, positions, segments, train):
        seen.append((ids[0], masked[0]))
        logits_TV = np.full((masked.shape[1], len(vocabulary)), -20.0)
        logits_TV[:, likeliest] = np.log([0.4, 0.3, 0.15, 0.1, 0.05])
        return logits_TV[None]

    model = types.SimpleNamespace(apply=apply)
    section = guesses.section(insides.inside(run, model, {}, [{"input": text} for text in TEXTS]))
    golden.check(golden.read(page.html("", [section])), __file__, "guesses")
    for (ids, masked), shown in zip(seen, section.parts[1::2], strict=True):
        hidden = [i + 1 for i, word in enumerate(shown.split()) if word == "____"]
        assert masked.tolist() == np.flatnonzero(ids == texts.MASK).tolist() == hidden
