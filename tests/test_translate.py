"""Text in, text out: a task with known answers, odd input, static shapes, workdirs that moved."""

import io
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import reversal
import tiny

from configs import wmt_base
from transformer import checkpoint, evaluate, tokenizer, translate

ROOT = Path(__file__).resolve().parents[1]

DECODE = {
    "beam_width": 4,
    "length_penalty": 0.6,
    "extra_length": 4,
    "max_length": reversal.LONGEST + 1,
    "batch_tokens": 192,
    "chunk_lines": 100,
}


def translator(model=None, **changes):
    return translate.Translator(
        model or reversal.model(), reversal.vocabulary(), **{**DECODE, **changes}
    )


@pytest.fixture(scope="module")
def unable():
    """A small model of random parameters over the same vocabulary, quick to compile."""
    size = len(reversal.vocabulary().source)
    model = tiny.model(source_vocab_size=size, target_vocab_size=size, num_layers=1)
    inputs = tiny.unpacked(tiny.pairs())["inputs"]
    return model, tiny.parameters(model, inputs)


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    """A run that can reverse, as training would have left it; nobody writes into it."""
    workdir = tmp_path_factory.mktemp("runs") / "reversal"
    fields = {k: v for k, v in vars(reversal.model()).items() if k in wmt_base.get_config().model}
    config = wmt_base.get_config()
    config.model.update(fields)
    config.vocabulary.size = len(reversal.vocabulary().source)
    config.vocabulary.fingerprint = reversal.vocabulary().fingerprint
    config.evaluate.weights = "latest"
    config.decode.update(DECODE)
    config.data.data_dir = str(workdir / "nowhere")
    checkpoint.write_file(workdir / "config.json", config.to_json().encode())
    checkpoint.write_file(workdir / "vocabulary" / "shared.model", reversal.vocabulary_model())
    vocabulary = config.vocabulary.fingerprint
    saved = checkpoint.Checkpoints(workdir, keep=1, every=1, vocabulary=vocabulary)
    saved.save(7, reversal.parameters(), {"count": np.zeros(1)})
    saved.close()
    return workdir


@pytest.mark.slow
def test_reversal_to_bleu_100():
    """As many lines out as in, in their order, blank for blank, over several chunks and batches."""
    lines = reversal.sentences(250, seed=2000)
    for blank in (0, 17, 18, 99, 100, 249):
        lines[blank] = "" if blank % 2 else "   "
    found = list(translator().translate(reversal.parameters(), iter(lines)))
    expected = list(map(reversal.reverse, lines))
    assert found == expected
    assert evaluate.score(found, expected, tokenize="13a")["bleu"] == pytest.approx(100)


@pytest.mark.slow
def test_an_over_long_line_is_translated_in_parts(caplog):
    letters = reversal.sentences(1, seed=3000, shortest=40, longest=40)[0].split()
    lines = ["a b c", " ".join(letters), "", "h g"]
    able = translator()
    found = list(able.translate(reversal.parameters(), lines))
    parts = letters[:15], letters[15:30], letters[30:]
    whole = " ".join(reversal.reverse(" ".join(part)) for part in parts)
    assert found == ["c b a", whole, "", "g h"]
    assert able.num_split == 1
    [warning] = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert "41 pieces" in warning
    assert "config.decode.max_length=16" in warning
    assert "3 parts" in warning


@pytest.mark.parametrize("max_length", [16, 19])
@pytest.mark.parametrize(
    "line", ["abc " * 20, "a" * 60, "a" * 60 + " b c", "b c " + "a" * 60, "aabb cc dd " * 9]
)
def test_parts_are_cut_before_words_and_lose_nothing(line, max_length, unable):
    """The search is made to answer with its source, so that the parts can be seen."""
    seen = []
    echo = translator(unable[0], max_length=max_length)
    pieces = reversal.vocabulary().source

    def search(parameters, source):
        seen.extend(row[row != tokenizer.PAD].tolist() for row in source if row.any())
        return source

    echo._search = search
    [found] = echo.translate(unable[1], [line])
    [ids] = reversal.ids([line])
    assert found.replace(" ", "") == line.replace(" ", "")
    assert echo.num_split == 1
    assert sum(len(part) - 1 for part in seen) == len(ids) - 1
    for part in seen:
        assert 1 < len(part) <= max_length
        assert part.index(tokenizer.END) == len(part) - 1
    if max(map(len, line.split())) < max_length // 2:
        assert found == line.strip()
        assert all(pieces.id_to_piece(part[0]).startswith("▁") for part in seen)


def test_no_more_than_a_chunk_is_read_ahead(unable):
    read = []

    def lines():
        for number in range(1000):
            read.append(number)
            yield "a b"

    found = translator(unable[0], chunk_lines=4, beam_width=1).translate(unable[1], lines())
    for number, _ in zip(range(1, 18), found, strict=False):
        assert len(read) <= -(-number // 4) * 4


def test_no_lines(unable):
    assert list(translator(unable[0]).translate(unable[1], [])) == []
    assert list(translator(unable[0]).translate(unable[1], ["", " "])) == ["", ""]


@pytest.mark.slow
def test_few_shapes_are_compiled(unable):
    """However many lines there are, however long, and for however many translators."""
    model, parameters = unable
    options = {"beam_width": 1, "max_length": 32, "batch_tokens": 128, "extra_length": 2}
    before = translate._search._cache_size()
    random = np.random.default_rng(0)
    for count in (1, 2, 3, 5, 7, 8, 9, 17, 33):
        lines = [" ".join("a" * n) for n in random.integers(1, 32, count)]
        for longest in (3, 20, 32):
            cut = [line[: 2 * longest] for line in lines]
            found = list(translator(model, **options).translate(parameters, cut))
            assert len(found) == count
    # Lengths 16 and 32, and 1, 4 or all of the 8 and 4 rows.
    assert translate._search._cache_size() - before <= 5


def test_an_output_is_at_most_its_source_and_extra_length_long(unable):
    """Where the end is all but impossible, it comes there all the same."""
    size = unable[0].source_vocab_size
    model = tiny.model(
        source_vocab_size=size, target_vocab_size=size, num_layers=1, tied_embeddings="none"
    )
    parameters = tiny.parameters(model, tiny.unpacked(tiny.pairs())["inputs"])
    parameters["output_embedding"]["embedding"][20:28] *= 10  # outshine the end symbol's
    sources = reversal.padded([[5] * n + [tokenizer.END] for n in (1, 4, 9)] + [[]] * 3, 16)
    tokens = translate._search(
        parameters, sources, model=model, beam_width=1, length_penalty=0.6, extra_length=3
    )
    # Rows that only fill the batch end at once.
    assert [row.index(tokenizer.END) for row in tokens.tolist()] == [4, 7, 12, 0, 0, 0]


def test_a_generated_line_break_breaks_no_line(unable):
    pieces = reversal.vocabulary().target
    spelt = [pieces.piece_to_id(p) for p in ("▁a", "<0x0A>", "▁b", "<0x0D>", "<0x0A>", "▁c")]
    assert len(pieces.decode(spelt).splitlines()) > 1
    breaks = translator(unable[0])
    breaks._search = lambda parameters, source: np.array([[*spelt, tokenizer.END]] * len(source))
    found = list(breaks.translate(unable[1], ["a", "b c"]))
    assert [text.split() for text in found] == [["a", "b", "c"]] * 2
    assert not set("\r\n") & set("".join(found))


def test_source_and_target_have_their_own_vocabulary(unable):
    other = tokenizer.learn(["x y z"] * 9, size=4 + 256 + 7, kind="bpe", character_coverage=1.0)
    both = tokenizer.Vocabulary(reversal.vocabulary().source, tokenizer.load(other, "other"))
    able = translate.Translator(unable[0], both, **DECODE)
    seen = []

    def search(parameters, source):
        seen.append(source[0][source[0] > 1].tolist())
        return np.array([tokenizer.encode(both.target, ["z y x"])[0]] * len(source))

    able._search = search
    assert list(able.translate(unable[1], ["a b"])) == ["z y x"]
    assert seen == [reversal.ids(["a b"])[0][:-1]]


# Standard input to standard output.


def translated(workdir, content, monkeypatch, capsysbinary):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), "ascii"))
    translate.translate(translate.read_config(workdir), workdir)
    return capsysbinary.readouterr().out


@pytest.mark.slow
def test_lines_are_bytes_up_to_a_newline(workdir, monkeypatch, capsysbinary, caplog):
    """Windows line ends, bytes that are not UTF-8, line separators that are text, no last \\n."""
    content = b"a b c\r\nd e \xff f\n\r\n" + "a\u2028b\x85c\x0bd\n".encode() + b"h g f"
    out = translated(workdir, content, monkeypatch, capsysbinary)
    assert out.endswith(b"\n")
    lines = out.decode().removesuffix("\n").split("\n")
    assert len(lines) == 5
    assert (lines[0], lines[2], lines[4]) == ("c b a", "", "f g h")
    assert lines[1]
    assert lines[3]
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len([w for w in warnings if "UTF-8" in w]) == 1
    assert any(w.startswith("line 2:") for w in warnings)


@pytest.mark.slow
def test_the_count_of_over_long_lines_is_said(workdir, monkeypatch, capsysbinary, caplog):
    content = b"a b c\n" + b"a b c d e f g h " * 4 + b"\n"
    out = translated(workdir, content, monkeypatch, capsysbinary)
    assert out.count(b"\n") == 2
    assert "1 lines were over-long" in caplog.text


@pytest.mark.slow
def test_a_copied_workdir_translates_the_same(workdir, tmp_path):
    """In another process, from another folder, with a locale that knows only ASCII."""
    copy = tmp_path / "elsewhere" / "copy"
    shutil.copytree(workdir, copy)
    lines = [*reversal.sentences(20, seed=4000), ""]
    done = subprocess.run(
        [sys.executable, ROOT / "launch.py", "--mode=translate", f"--workdir={copy}"],
        input="\n".join(lines).encode(),
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, "LC_ALL": "C"},
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    expected = [reversal.reverse(line) for line in lines[:-1]]
    assert done.stdout.decode() == "\n".join(expected) + "\n"


def copied(workdir, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(workdir, copy)
    return copy


def test_another_vocabulary_is_refused(workdir, tmp_path):
    copy = copied(workdir, tmp_path)
    text = [line.replace("a", "z") for line in reversal.sentences(500, seed=0)]
    size = len(reversal.vocabulary().source)
    other = tokenizer.learn(text, size=size, kind="bpe", character_coverage=1.0)
    (copy / "vocabulary" / "shared.model").write_bytes(other)
    with pytest.raises(ValueError, match=r"\A.*vocabulary.*\Z") as error:
        translate.load(copy, translate.read_config(copy))
    assert reversal.vocabulary().fingerprint in str(error.value)
    assert tokenizer.fingerprint(tokenizer.load(other, "other")) in str(error.value)
    assert str(copy / "vocabulary") in str(error.value)


@pytest.mark.parametrize("name", ["config.json", "vocabulary/shared.model"])
def test_a_missing_file_is_named(workdir, tmp_path, name):
    copy = copied(workdir, tmp_path)
    (copy / name).unlink()
    with pytest.raises(ValueError, match=rf"\A.*{name}.*\Z") as error:  # one line
        translate.load(copy, translate.read_config(copy))
    assert str(copy) in str(error.value)


def test_a_run_that_saved_nothing_yet(workdir, tmp_path):
    copy = copied(workdir, tmp_path)
    shutil.rmtree(copy / "checkpoints")
    with pytest.raises(ValueError, match=r"\A.*checkpoints/parameters does not exist.*\Z"):
        translate.load(copy, translate.read_config(copy))


@pytest.mark.parametrize("text", ["나는", "日本語 🏠", "\t a \t", "a\u00a0b", "\x00", "\ufeffa"])
def test_any_text_gives_one_line(text, unable):
    [found] = translator(unable[0], beam_width=1).translate(unable[1], [text])
    assert "\n" not in found
