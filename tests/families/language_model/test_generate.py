"""--mode=generate: continuations in order, a line each or streamed, as text or JSON."""

import json

import pytest
from families.language_model import language
from helpers.corpora import learn

from transformer.errors import UserError
from transformer.families.language_model import characters, generate
from transformer.modes import lines

PROMPTS = ["ab", "", "abc" * 9, "h g"]


@pytest.fixture
def continued(answered, tmp_path, monkeypatch):
    """A function of standard input and options of config.generate: what is written."""
    language.write_run(tmp_path, monkeypatch, language.config(tmp_path))

    def run(content, **changes):
        changes = {"max_tokens": 20, **changes}
        key = lambda name: name if "." in name else f"generate.{name}"
        values = {key(name): x for name, x in changes.items()}
        return answered("generate", tmp_path, content, **values)

    return run


def text(prompts):
    return "".join(f"{prompt}\n" for prompt in prompts).encode()


def answers(continued, prompts, more=(), **options):
    """The objects that answer those of some prompts, with more keys."""
    asked = "".join(json.dumps({"prompt": x, **dict(more)}) + "\n" for x in prompts)
    written = continued(asked.encode(), format="json", **options)
    return list(map(json.loads, written.split("\n")[:-1]))


def test_each_prompt_has_its_continuation_in_order_whatever_the_batches(continued):
    written = continued(text(PROMPTS), lines=1)
    assert written.count("\n") == len(PROMPTS)
    assert written == continued(text(PROMPTS), lines=1, batch_size=1)
    in_json = answers(continued, PROMPTS, {"id": 3}, lines=1)
    assert [x["continuation"] for x in in_json] == written.split("\n")[:-1]
    assert [(x["prompt"], x["id"]) for x in in_json] == [(prompt, 3) for prompt in PROMPTS]
    assert len(set(written.split("\n"))) > 3


def test_several_lines_are_followed_by_an_empty_one(continued):
    several = answers(continued, ["ab"])[0]["continuation"]
    assert len(several) == 20
    assert "\n" in several
    assert continued(b"ab\n") == several + "\n\n"
    two = continued(b"ab\n", lines=2, max_tokens=1000)
    assert two.count("\n") == 1 + 2  # between its lines, behind it, and the empty one
    assert two.startswith(several[: two.index("\n")])


def test_samples_of_a_prompt_differ_and_the_first_is_that_of_one(continued):
    three = continued(text(PROMPTS), lines=1, num_samples=3).split("\n")[:-1]
    assert three[::3] == continued(text(PROMPTS), lines=1).split("\n")[:-1]
    assert len(set(three)) > 8
    in_json = answers(continued, PROMPTS, lines=1, num_samples=3)
    assert [x for answer in in_json for x in answer["continuations"]] == three


@pytest.mark.parametrize("num_lines", [0, 1])
def test_what_is_streamed_is_what_is_written_at_once(continued, num_lines, monkeypatch):
    whole = continued(text(PROMPTS), lines=num_lines, num_samples=2)
    writes, write = [], lines.write
    monkeypatch.setattr(lines, "write", lambda *x, **y: writes.append(x[1]) or write(*x, **y))
    assert continued(text(PROMPTS), lines=num_lines, num_samples=2, stream=True) == whole
    assert max(map(len, writes)) == 1


def test_prompts_that_the_model_does_not_see_as_a_whole_are_said(continued, caplog):
    continued(text(["ab", "a" * 12, "a?b€"]))
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said == [
        "line 2: the prompt has 12 tokens, of which the model sees the last 7 to 12 "
        "(config.data.context_length=12)",
        "line 3: the prompt has 2 characters unknown to the vocabulary",
    ]


def test_a_context_beyond_the_learned_positions_is_refused(continued):
    message = r"^config\.model\.max_positions=12 learned positions are fewer than "
    with pytest.raises(UserError, match=message):
        continued(b"a\n", **{"data.context_length": 13})


def test_a_continuation_of_pieces_keeps_its_first_space():
    """Alone, it would be decoded without."""
    vocabulary = learn("text")
    [ids] = vocabulary.encode(["abc de f"])
    for length in range(1, len(ids) - 1):
        prompt = generate.Prompt(0, {}, ids[:length])
        [known] = vocabulary.decode([ids[:length]])
        assert known + generate.continuation(vocabulary, prompt, ids[length:-1]) == "abc de f"


def test_a_character_of_several_tokens_is_given_as_a_whole():
    vocabulary = learn("text")
    [ids] = vocabulary.encode(["a가b나"])  # three bytes each
    blocks = [[ids[: i + 1]] for i in range(len(ids) - 2)]  # without the last byte
    pieces = [*generate.pieces(vocabulary, generate.Prompt(0, {}, []), iter(blocks))]
    written = "".join(pieces)
    assert pieces[:3] == ["a", "가", "b"]
    assert "가" not in written[3:]
    assert written.count("\ufffd") in (1, 2)


def test_line_breaks_of_a_prompt_are_line_ends():
    table = characters.Characters(language.LETTERS)
    [prompt] = generate.read_prompts([{"prompt": "ab\nc"}], table, 12)
    assert prompt.ids == [5, 6, table.end, 7]
