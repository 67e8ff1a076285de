"""Further scores: of published outputs as published, of ours as Moses' scripts and sacreBLEU."""

import json
import lzma
import pathlib
import sys
from types import SimpleNamespace

import pytest
from helpers import reversal
from sacrebleu.metrics import BLEU

from configs import wmt_base
from transformer.errors import UserError
from transformer.families.metrics import neural, paper, published
from transformer.tasks import translation

# Our sentences, recorded from tokenizer.perl, get_ende_bleu.sh's split of German, multi-bleu.perl.
CASES = json.loads((pathlib.Path(__file__).parent / "moses.json").read_text())


@pytest.mark.parametrize("case", CASES)
def test_the_papers_bleu_is_that_of_the_scripts(case):
    hypotheses, *references = case["tokenised"]
    score = paper.multi_bleu().corpus_score(hypotheses, references)
    precisions = "/".join(f"{x:.1f}" for x in score.precisions)
    printed = f"BLEU = {score.score:.2f}, {precisions} (BP={score.bp:.3f}, ratio={score.ratio:.3f}"
    assert case["multi_bleu"].startswith(printed)
    pytest.importorskip("sacremoses", reason="sacremoses is not installed")
    texts = case["hypotheses"], *case["references"]
    tokenise = paper.tokeniser(case["language"])
    assert [[tokenise(line) for line in lines] for lines in texts] == case["tokenised"]
    config = wmt_base.get_config()
    config.data.target_language = case["language"]
    assert paper.paper(config)([], texts[0], texts[1:], None)["bleu_paper"] == score.score


def test_scores_are_sacrebleus_with_half_its_interval_and_faulty_outputs_are_counted():
    config = wmt_base.get_config()
    config.decode.extra_length = 3
    # At most 5, 4, 4 and 3 pieces besides the end symbol.
    sources, hypotheses = ["a b", "c", "d", ""], ["B a b c d", "c d A b", "d a", " "]
    references = [["b a b c d", "c d a b", "d a", ""], ["a a b c d", "", "d", "a"]]
    scores = published.published(config)(sources, hypotheses, references, reversal.vocabulary())
    metrics = {"bleu": BLEU(), "bleu_intl": BLEU(tokenize="intl")}
    for name, metric in {**metrics, "bleu_lower": BLEU(lowercase=True)}.items():
        expected = metric.corpus_score(hypotheses, references, n_bootstrap=1000)
        assert scores.get(name, expected.score) == expected.score
        assert scores[f"{name}_ci"] == pytest.approx(expected._ci)
    assert (scores["empty"], scores["over_long"]) == (1, 2)
    assert published.ter(config)([], ["a b"], [["b A b c"]], None) == {"ter": 50.0, "ter_ci": 0.0}


def test_comet_gets_sources_outputs_and_first_references(monkeypatch):
    predict = lambda items, **_: SimpleNamespace(system_score=len(items) + float(items[0]["ref"]))
    load = {"/Unbabel/wmt22-comet-da": SimpleNamespace(predict=predict)}.get
    comet = SimpleNamespace(download_model=lambda name: f"/{name}", load_from_checkpoint=load)
    monkeypatch.setitem(sys.modules, "comet", comet)
    assert neural.comet(None)(["s"], ["h"], [["0.5"], ["x"]], None) == {"comet": 1.5}


@pytest.mark.parametrize(
    ("scorer", "package"), [(paper.paper, "sacremoses"), (neural.comet, "comet")]
)
def test_a_missing_package_is_named(scorer, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"scores: .* pip install (unbabel-)?{package}\Z"):
        scorer(wmt_base.get_config())


@pytest.mark.slow
def test_published_outputs_have_their_published_scores(test_data):
    """By multi-bleu.perl, MultEval, mteval-v13a, and at WMT22 by sacreBLEU."""
    for entry in json.loads((test_data / "reference-outputs" / "scores.json").read_text()):
        files = ((test_data / name).read_bytes() for name in (entry["hyp"], *entry["refs"]))
        hypotheses, *references = (lzma.decompress(x).decode().split("\n")[:-1] for x in files)
        figures, check = entry["published"], entry["our_sacrebleu_check"]
        multi_bleu = lambda *x, hyps=hypotheses: paper.multi_bleu().corpus_score(hyps, x).score
        score = lambda *x, hyps=hypotheses: translation.score(hyps, x, tokenize="13a")
        if "bleu_both" in figures:
            for name, chosen in {"refA": [0], "refB": [1], "both": [0, 1]}.items():
                scores = score(*(references[i] for i in chosen))
                assert scores["bleu"] == pytest.approx(figures[f"bleu_{name}"], rel=1e-9)
                assert scores["chrf"] == pytest.approx(figures[f"chrf2_{name}"], rel=1e-9)
        if "bleu_13a" in check:
            scores = score(*references)
            assert scores["bleu"] == pytest.approx(check["bleu_13a"], abs=1e-4)
            assert scores["chrf"] == pytest.approx(check.get("chrf2", scores["chrf"]), abs=1e-4)
        if "bleu" in figures:
            # MultEval's is a mean of three outputs; mteval takes seven tokens more.
            means = {"MultEval README, mean of opt0-2": 0.2, "mteval-v13a.pl": 0.03}
            bleu = scores["bleu"] if "mteval" in figures["tool"] else multi_bleu(*references)
            assert bleu == pytest.approx(figures["bleu"], abs=means.get(figures["tool"], 0.01))
        if "gold_file" in figures:
            ter = published.ter(None)([], hypotheses, references, None)["ter"]
            assert ter == pytest.approx(100 * float(figures["gold_file"]["ter"]), abs=0.01)
        if "bleu_none_4refs" in check:
            assert multi_bleu(*references) == pytest.approx(check["bleu_none_4refs"], abs=1e-4)
            each = [multi_bleu(lines) for lines in references]
            assert each == pytest.approx(check["bleu_none_single_ref"], abs=1e-4)
