"""--mode=audit, as it is typed: what it prints, the list of faulty pairs and the cleaned copy."""

import gzip
import json
import logging
import re

import pytest
from helpers import corpora
from tools.audit import parallel

import launch
from transformer.errors import UserError
from transformer.tasks import vocabularies


def write(folder, **splits):
    """Writes SPLIT.xx and SPLIT.yy of the pairs of each split."""
    folder.mkdir(exist_ok=True)
    for split, pairs in splits.items():
        for side, language in enumerate(("xx", "yy")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            content = text.encode(errors="surrogateescape")  # \udcfc is the byte fc
            (folder / f"{split}.{language}").write_bytes(content)


@pytest.fixture
def splits(tmp_path):
    """Clean pairs, {split: pairs}, which a test may spoil."""
    pairs = parallel.pairs(700)
    return {"train": pairs[:600], "validation": pairs[600:650], "test": pairs[650:]}


@pytest.fixture
def run(tmp_path, capsys, caplog, monkeypatch):
    """A function of flags that audits tmp_path/text and returns the result, one line of JSON."""
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.INFO)

    def audited(*flags, directory=tmp_path / "text"):
        launch.main(
            [
                "--config=configs/parallel_text.py",
                "--mode=audit",
                f"--workdir={tmp_path}/run",
                f"--config.data.directory={directory}",
                "--config.data.source_language=xx",
                "--config.data.target_language=yy",
                *flags,
            ]
        )
        assert not (tmp_path / "run/config.json").exists()
        output = capsys.readouterr().out
        assert output.count("\n") == 1
        return json.loads(output)

    return audited


ONLY_TRAIN = ("--config.data.validation=", "--config.data.test=")


def faults_of(result):
    """{split: {fault: first lines}}, of what was found."""
    return {
        split: {name: f["lines"] for name, f in values["faults"].items() if f["pairs"]}
        for split, values in result.items()
    }


def test_clean_text(run, splits, tmp_path, caplog):
    write(tmp_path / "text", **splits)
    result = run("--config.audit.page=")
    assert not (tmp_path / "audit.html").exists()
    assert faults_of(result) == {"train": {}, "validation": {}, "test": {}}
    assert result["train"]["misaligned"] == []
    assert result["train"]["files"] == [f"{tmp_path}/text/train.{x}" for x in ("xx", "yy")]
    assert [result[split]["pairs"] for split in result] == [600, 50, 50]
    assert "nothing found" in caplog.text
    assert "no vocabulary" in caplog.text


@pytest.fixture
def faulty(splits, tmp_path):
    """Plants faults, and returns the first lines of each in train."""
    train = splits["train"]
    train[10][1] = ""
    train[20] = list(train[5])
    train[30] = [splits["test"][3][0] + "!", splits["test"][3][1]]
    train[40][0] += "\x07"
    train[50][0] += " gr\udcfcn\tin Latin-1"
    write(tmp_path / "text", **splits)
    faults = {"blank": [11], "broken": [51], "invisible": [41, 51], "duplicate": [21]}
    return faults | {"overlap": [31]}


def test_faults_are_counted_and_listed(run, faulty, splits, tmp_path, caplog):
    result = run(f"--config.audit.lines={tmp_path}/new/list.tsv")
    assert faults_of(result) == {"train": faulty, "validation": {}, "test": {"overlap": [4]}}
    assert "          1    0.17%  a side without text (blank): 11" in caplog.text
    page = (tmp_path / "audit.html").read_text()
    for text in ("Audit of xx–yy pairs", "a side without text", splits["train"][10][0]):
        assert text in page
    assert "[U+0007]" in page  # in line 41
    rows = [line.split("\t") for line in (tmp_path / "new/list.tsv").read_text().splitlines()]
    assert [row[:3] for row in rows] == [
        ["train", "11", "blank"],
        ["train", "21", "duplicate"],
        ["train", "31", "overlap"],
        ["train", "41", "invisible"],
        ["train", "51", "broken,invisible"],
        ["test", "4", "overlap"],
    ]
    assert rows[1][3:] == splits["train"][5]
    assert rows[4][3].endswith(" gr\ufffdn in Latin-1")  # a row has no more tabs


def test_a_shifted_file(run, splits, tmp_path, caplog):
    splits["train"][350:350] = [["", ""]]
    write(tmp_path / "text", **splits)
    lines = (tmp_path / "text/train.xx").read_text().splitlines(keepends=True)
    (tmp_path / "text/train.xx").write_text("".join(lines[:350] + lines[351:]))
    result = run(f"--config.audit.clean={tmp_path}/copy")["train"]
    assert (result["source_lines"], result["target_lines"]) == (600, 601)
    [run_found] = result["misaligned"]
    assert run_found["shift"] == 1
    assert abs(run_found["line"] - 351) <= 6
    assert "lines: 600 source, 601 target" in caplog.text
    assert "source line i goes with target line i + 1" in caplog.text
    kept = (tmp_path / "copy/train.xx").read_text().splitlines()
    assert 330 <= len(kept) <= 350
    assert kept == [pair[0] for pair in splits["train"][: len(kept)]]


def test_lines_in_the_wrong_language_of_two_files(run, tmp_path, caplog):
    """Short pairs whose sides are exchanged, and French in place of German."""
    (tmp_path / "a").write_text("Where am I?\nDas ist mein Hund.\nJe ne sais pas quoi faire.\n")
    (tmp_path / "b").write_text("Wo bin ich?\nThat is my dog.\nI do not know what to do.\n")
    files = f"{tmp_path}/a,{tmp_path}/b"
    flags = [f"--config.data.train={files}", *ONLY_TRAIN]
    german = ["--config.data.source_language=de-AT", "--config.data.target_language=en"]
    assert faults_of(run(*flags, *german)) == {"train": {"swapped": [1], "language": [3]}}
    assert "py3langid" not in caplog.text
    assert faults_of(run(*flags)) == {"train": {}}
    assert "py3langid does not know the language 'xx'" in caplog.text


def test_a_cleaned_copy_lacks_what_is_dropped(run, faulty, splits, tmp_path, caplog):
    copy = tmp_path / "copy"
    run(f"--config.audit.clean={copy}")
    kept = [pair for number, pair in enumerate(splits["train"]) if number not in (10, 20, 30, 50)]
    write(tmp_path / "expected", **{**splits, "train": kept})
    for file in (tmp_path / "expected").iterdir():
        assert (copy / file.name).read_bytes() == file.read_bytes()
    rows = [line.split("\t") for line in (copy / "dropped.tsv").read_text().splitlines()]
    assert [" ".join(row[1:3]) for row in rows] == [
        *("11 blank", "21 duplicate", "31 overlap", "51 broken")
    ]
    assert f"--config.data.directory={copy} --config.data.train=train" in caplog.text
    left = {"train": {"invisible": [38]}, "validation": {}, "test": {}}
    assert faults_of(run(directory=copy)) == left
    before = {file: file.read_bytes() for file in copy.iterdir()}
    with pytest.raises(UserError, match=r"copy exists already, and is not overwritten"):
        run(f"--config.audit.clean={copy}")
    assert {file: file.read_bytes() for file in copy.iterdir()} == before


def test_what_is_dropped_is_chosen_and_a_split_may_be_lacking(run, faulty, tmp_path, caplog):
    chosen = "--config.audit.drop=duplicate, blank"
    run(f"--config.audit.clean={tmp_path}/copy", chosen, "--config.data.test=")
    rows = (tmp_path / "copy/dropped.tsv").read_text().splitlines()
    assert [row.split("\t")[1] for row in rows] == ["11", "21"]
    assert b" gr\xfcn\tin Latin-1\n" in (tmp_path / "copy/train.xx").read_bytes()
    languages = "--config.data.source_language=xx --config.data.target_language=yy"
    assert f"--config.data.validation=validation --config.data.test= {languages}\n" in caplog.text


def test_the_vocabulary_of_the_workdir(run, tmp_path, caplog, tiny_config):
    """It is that of --workdir, or the file of config.vocabulary.model."""
    write(tmp_path / "text", train=[["abc def", "fed cba"], ["abc é", "fed"]] * 3)
    model = corpora.learn("text").processor.serialized_model_proto()
    (tmp_path / "my.model").write_bytes(model)
    flags = [*ONLY_TRAIN, "--config.data.max_length=3"]
    given = run(*flags, f"--config.vocabulary.model={tmp_path}/my.model")["train"]
    (tmp_path / "run/vocabulary").mkdir(parents=True)
    vocabularies.write(tmp_path / "run", tiny_config({}), {"shared.model": model})
    assert run(*flags)["train"] == given
    assert given["faults"]["spelt"] == {"pairs": 3, "lines": [2, 4, 6]}
    assert given["without_a_piece"] == {"é": 3}
    assert given["faults"]["long"]["pairs"] > 0
    assert f"the vocabulary is that of {tmp_path / 'run'}" in caplog.text


def test_a_corpus_that_is_no_files(tmp_path, data_dir, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    launch.main(
        [
            *("--config=configs/quickstart.py", "--mode=audit", f"--workdir={tmp_path}/run"),
            *(f"--config.data.data_dir={data_dir}", "--config.data.train=validation"),
        ]
    )
    result = json.loads(capsys.readouterr().out)
    assert [values["pairs"] for values in result.values()] == [500, 500, 500]
    for values in result.values():
        assert not values["files"]
        assert not values["misaligned"]
        for fault in ("blank", "broken", "script", "swapped"):
            assert not values["faults"][fault]["pairs"]


@pytest.mark.parametrize(
    ("flags", "right"),
    [
        (["--config.audit.drop=blank,doubled"], "drop must be one of 'blank', 'misaligned'"),
        (["--config.audit.drop="], "'long', 'spelt', found ''"),
        (["--config.audit.page=/proc/a.html"], "config.audit.page: cannot write in /proc"),
        (["--config.audit.lines=/proc/a.tsv"], "config.audit.lines: cannot write in /proc"),
        (["--config.audit.lines=gs://a/b"], "lines must be a local path, found gs://a/b"),
        (["--config.data.train="], "config.data.train is empty"),
        (["--config.data.train=nothing"], "config.data.train='nothing': expected one of"),
        (["--config.vocabulary.model=no/where"], "model=no/where: expected WORKDIR"),
        (["--config.data.target_language=xx"], "two different codes"),
        (["--config.data.test=empty"], "/text/empty.xx and "),
    ],
)
def test_a_mistake_is_one_line(run, splits, tmp_path, flags, right):
    write(tmp_path / "text", **splits, empty=[])
    with pytest.raises(UserError, match=rf"\A.*{re.escape(right)}.*\Z"):
        run(*flags)


def test_multi30k(run, test_data, tmp_path):
    """What is found was looked at: '@@' for a sentence (16510, 16664), a tab (7366), ..."""
    flags = [
        *("--config.data.source_language=en", "--config.data.target_language=de"),
        *("--config.data.validation=val", "--config.data.test=test_2016_flickr"),
    ]
    result = run(*flags, directory=test_data / "multi30k/raw")
    assert result["train"]["faults"]["entities"]["pairs"] == 16  # '&amp;'
    assert faults_of(result)["train"] == {
        "near_duplicate": [10316, 15761],
        "invisible": [7366],
        "length": [16510, 16664, 24586],
        "duplicate": [14215, 16867, 20149],
        "entities": [561, 3158, 3913, 4527, 4603],
    }
    assert faults_of(result)["validation"] == {"source_in_train": [687], "target_in_train": [165]}
    assert faults_of(result)["test"] == {}
    assert not any(split["misaligned"] for split in result.values())


def test_a_line_missing_in_multi30k(run, test_data, tmp_path):
    folder = test_data / "multi30k/raw"
    lines = gzip.decompress((folder / "train.de.gz").read_bytes()).splitlines(keepends=True)
    (tmp_path / "short.de").write_bytes(b"".join(lines[:14500] + lines[14501:]))
    [found] = run(
        *("--config.data.source_language=en", "--config.data.target_language=de"),
        f"--config.data.train={folder}/train.en.gz,{tmp_path}/short.de",
        *ONLY_TRAIN,
    )["train"]["misaligned"]
    assert found["shift"] == -1
    assert abs(found["line"] - 14501) <= 6
