"""A tiny parser is trained, scored and used; what cannot work is refused."""

import json

import pytest
from conformance import tiny_tasks

from transformer.errors import UserError
from transformer.families.parsing import brackets, parsing_task, trees
from transformer.modes import train
from transformer.workdir import key_tables
from transformer.workdir.log import read


def configure(folder, changes):
    config = tiny_tasks.config("parsing", folder)
    config.update_from_flattened_dict(changes)
    return config


@pytest.mark.slow
def test_a_run_learns_is_scored_and_parses(tmp_path, answered, capsysbinary):
    changes = {"train.num_steps": 40, "train.save_every": 40, "evaluate.every": 20}
    config = configure(tmp_path, {**changes, "optimizer.schedule.warmup_steps": 10})
    train.train(config, tmp_path / "run")
    result = json.loads(capsysbinary.readouterr().out)
    first, last = (x for x in read(tmp_path / "run") if x["kind"] == "validation")
    assert last["loss"] < first["loss"]
    assert {"f1", "precision", "recall", "complete_match"} <= result.keys()
    lines = ["the ( cat -LRB- sees it", "", "It says ."]
    out = answered("parse", tmp_path / "run", "\n".join(lines).encode())
    parsed = [*map(trees.from_text, out.splitlines())]
    assert [list(tree.words) for tree in parsed] == [trees.words_of(line) for line in lines]
    asked = b'{"id": 7, "source": "It says ."}'
    changes = {"parse.format": "json", "decode.num_hypotheses": 2}
    answer = json.loads(answered("parse", tmp_path / "run", asked, **changes))
    assert (answer["id"], answer["tree"]) == (7, out.splitlines()[2])
    assert answer["hypotheses"][0] == {"tree": answer["tree"], "score": answer["score"]}


def test_the_symbols_of_a_vocabulary_are_those_of_its_trees():
    vocabulary = brackets.learn([trees.from_text("(S (NP (NN a)))"), trees.from_text("(X (NN b))")])
    assert vocabulary.symbols == ("(NP", "(S", "(X", ")NP", ")S", ")X", "NN")
    assert len(vocabulary) == 4 + 7
    [ids] = vocabulary.encode(["(S NN (QP )S"])  # training has no QP
    assert vocabulary.decode([ids]) == ["(S NN )S"]
    assert ids[-1] == vocabulary.end
    assert vocabulary.pieces(ids) == ["▁(S", "▁NN", "<special>", "▁)S", "<special>"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data.max_length": 97}, r"data\.max_length must be at most 96, found 97"),
        ({"data.batch_tokens": 95}, r"data\.batch_tokens must be at least 96, found 95"),
        ({"model.tied_embeddings": "all"}, r"model\.tied_embeddings must be one of 'target', "),
        ({"decode.language_model": "x"}, r"decode\.language_model must be one of '', found 'x'"),
        ({"decode.num_hypotheses": 3}, r"decode\.num_hypotheses=3 must be at most .*beam_width=2"),
        (
            {"model.positions": "learned", "model.max_positions": 95},
            r"model\.max_positions=95 learned positions are fewer than config\.data\.max_length=96",
        ),
    ],
)
def test_what_cannot_work_is_refused(changes, message, tmp_path):
    config = configure(tmp_path, changes)
    with pytest.raises(UserError, match=rf"^config\.{message}"):
        key_tables.check(config) or parsing_task.check(config)
