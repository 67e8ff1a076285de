"""--mode=audit: looks for faults in the sentence pairs of a config, before training."""

import json
import logging
import os
import shlex
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
from ml_collections import ConfigDict

from transformer.data import corpora, text_files
from transformer.errors import UserError, quantity
from transformer.runtime import paths, progress
from transformer.tasks import splits, vocabularies
from transformer.tools.audit import (
    alignment,
    audit_page,
    cleaning,
    faults,
    languages,
    line_measures,
    raw_pairs,
    scripts,
)
from transformer.tools.pages import page

SHOWN = 5  # line numbers of a fault, in the table and in the result
CHARACTERS = 20  # characters without a piece, in the result


class Split(NamedTuple):
    """Holds what the audit has found in a split."""

    pairs: raw_pairs.Pairs
    sides: tuple[line_measures.Lines, line_measures.Lines]
    masks: dict[str, np.ndarray]  # {fault: bool [pairs]}
    misaligned: list[alignment.Misaligned]
    ratio: float  # target characters per source character
    spelt: Counter  # characters without a piece in the vocabulary


def audit(config: ConfigDict, folder: Path) -> None:
    """Prints the faults of each split, with their first line numbers: a table, or one JSON line.

    Writes `audit.page`; with `audit.lines` a file of all faulty pairs; with `audit.clean` a folder
    with a copy that lacks the pairs with faults of `audit.drop`.
    """
    check(config)
    splits.fill_in_languages(config)
    start = time.perf_counter()
    read = {split: open_split(config, split) for split in names(config)}
    readers = make_readers(config, folder, read["train"])
    examined = {split: examine(config, split, source, readers) for split, source in read.items()}
    compare_with_train(examined)
    seconds, count = time.perf_counter() - start, sum(map(len, read.values()))
    result = {name: summary(split) for name, split in examined.items()}
    tables = [table(split, values) for split, values in result.items()]
    if sys.stdout.isatty():
        print("\n\n".join(tables), flush=True)
    else:
        logging.info("%s", "\n\n".join(["the faults of each split:", *tables]))
    logging.info("%s in %.1f s", quantity(count, "pair"), seconds)
    if config.audit.page:
        write_page(config, examined, result)
    if config.audit.lines:
        file = paths.path(config.audit.lines)
        for name, split in examined.items():
            cleaning.write_list(file, name, split.pairs, split.masks)
        logging.info("all faulty pairs are in %s", file)
    if config.audit.clean:
        clean(config, examined)
    if not sys.stdout.isatty():
        print(json.dumps(result), flush=True)


def check(config: ConfigDict) -> None:
    """Raises UserError for invalid values of `config.audit`, before anything is read."""
    options = config.audit
    for name in drop_names(config):
        if name not in faults.FAULTS:
            known = ", ".join(faults.FAULTS)
            raise UserError(f"config.audit.drop must have names of {known}, found {name!r}")
    if options.page:
        page.check_writable(Path(options.page), "config.audit.page")
    for key in ("lines", "clean"):
        if options[key]:
            cleaning.check_new(options[key], key)


def drop_names(config: ConfigDict) -> list[str]:
    """Returns the faults whose pairs a cleaned copy does not have."""
    return list(filter(None, map(str.strip, config.audit.drop.split(","))))


def names(config: ConfigDict) -> list[str]:
    """Returns the splits to look at: those of the config, without one whose name is empty."""
    if not config.data.train:
        raise UserError("config.data.train is empty: it names the pairs to look at")
    every = dict.fromkeys((*corpora.SPLITS, config.evaluate.split))
    return [split for split in every if splits.name_and_key(config, split)[0]]


def open_split(config: ConfigDict, split: str) -> raw_pairs.Pairs:
    """Returns the raw pairs of a split; parallel text is read from its files."""
    data = config.data
    if data.corpus != "parallel_text":
        return raw_pairs.corpus_pairs(splits.pairs(config, split))
    name, key = splits.name_and_key(config, split)
    languages = data.source_language, data.target_language
    folder = Path(os.path.expanduser(data.directory))
    return raw_pairs.file_pairs(text_files.find(folder, name, languages, key))


def make_readers(
    config: ConfigDict, folder: Path, train: raw_pairs.Pairs
) -> tuple[line_measures.Reader, line_measures.Reader]:
    """Returns the `Reader` of each side: its language, script and vocabulary, if there is one."""
    vocab = None
    if config.vocabulary.model:
        vocab = vocabularies.load(config, vocabularies.given(config))
    elif all((folder / "vocabulary" / name).is_file() for name in vocabularies.names(config)):
        vocab = vocabularies.read(folder, config)
        logging.info("the vocabulary is that of %s", folder)
    else:
        logging.info(
            "no vocabulary (config.vocabulary.model, or that of --workdir): lengths are counted in "
            "words, which are fewer than pieces"
        )
    sides = vocab or (None, None)
    spellings = [
        scripts.Spelling(side.processor) if hasattr(side, "processor") else None for side in sides
    ]
    codes = config.data.source_language, config.data.target_language
    known = tuple(map(scripts.code_of, codes))
    for code in sorted({*known} - {*languages.identifier().labels}):
        logging.info("py3langid does not know the language %r: its lines may be in any", code)
    numbers = line_measures.side_scripts(train.read, codes)
    return tuple(
        line_measures.Reader(own_and_other, script, config.data.max_length, pieces, spelling)
        for own_and_other, script, pieces, spelling in zip(
            (known, known[::-1]), numbers, sides, spellings, strict=True
        )
    )


def examine(
    config: ConfigDict,
    split: str,
    read: raw_pairs.Pairs,
    readers: tuple[line_measures.Reader, line_measures.Reader],
) -> Split:
    """Reads a split once, and returns its faults, all but its overlap with other splits."""
    if not len(read):
        raise UserError(f"the split {split!r} is empty: {' and '.join(read.files)}")
    with progress.counter(f"audit {split}", total=len(read), unit="pair") as advance:
        source, target, spelt = line_measures.scan(read.read, readers, advance)
    difference = read.counts[1] - read.counts[0]
    values = faults.pair_faults(source, target, config.data.max_length, difference)
    return Split(read, (source, target), *values, spelt)


def compare_with_train(examined: dict[str, Split]) -> None:
    """Adds to the masks of each split its overlap with train; to train's, with any other split."""
    train = examined["train"]
    overlap = np.zeros(len(train.pairs), bool)
    for split in examined.values():
        if split is not train:
            blank = split.masks["blank"]
            masks, in_train = faults.overlap(train.sides, split.sides, blank)
            split.masks.update(masks)
            overlap |= in_train
    train.masks["overlap"] = overlap


def summary(split: Split) -> dict:
    """Returns a split's result: counts, and the first line numbers of each fault, from 1."""
    found_faults = {
        name: {
            "pairs": int(split.masks[name].sum()),
            "lines": [int(i) + 1 for i in np.flatnonzero(split.masks[name])[:SHOWN]],
        }
        for name in faults.FAULTS
        if name in split.masks
    }
    runs = split.misaligned
    return {
        "files": split.pairs.files,
        "pairs": len(split.pairs),
        "source_lines": split.pairs.counts[0],
        "target_lines": split.pairs.counts[1],
        "ratio": split.ratio,
        "misaligned": [{"line": x.start + 1, "to": x.stop, "shift": x.shift} for x in runs],
        "faults": found_faults,
        "without_a_piece": dict(split.spelt.most_common(CHARACTERS)),
    }


def table(split: str, values: dict) -> str:
    """Formats a split's result as a table of the faults that were found."""
    count = quantity(values["pairs"], "pair")
    rows = [f"{split}: {count}, {values['ratio']:.2f} target characters for one of the source"]
    rows += [f"  {file}" for file in values["files"]]
    heading, difference = len(rows), values["target_lines"] - values["source_lines"]
    if difference:
        side = "target" if difference > 0 else "source"
        rows.append(f"  the {side} has {quantity(abs(difference), 'line')} more")
    rows += [f"  misaligned: {words_of(run)}" for run in values["misaligned"][:SHOWN]]
    for name, fault in values["faults"].items():
        if number := fault["pairs"]:
            shown = ", ".join(map(str, fault["lines"])) + (", ..." if number > SHOWN else "")
            share = number / values["pairs"]
            rows.append(f"{number:>11,} {share:>8.2%}  {faults.FAULTS[name]} ({name}): {shown}")
    if without := values["without_a_piece"]:
        rows.append(f"  characters without a piece: {' '.join(map(repr, without))}")
    return "\n".join(rows if len(rows) > heading else [*rows, "  nothing found"])


def write_page(config: ConfigDict, examined: dict[str, Split], result: dict) -> None:
    """Writes the page: a section for each split."""
    sections = []
    for name, split in examined.items():
        values = result[name]
        numbers = {line for fault in values["faults"].values() for line in fault["lines"]}
        sections.append(
            audit_page.section(
                *(name, values, list(map(words_of, values["misaligned"])), split.masks),
                *(split.sides, raw_pairs.texts(split.pairs, numbers)),
            )
        )
    data = config.data
    html = page.html(f"Audit of {data.source_language}–{data.target_language} pairs", sections)
    paths.write_file(file := Path(config.audit.page), html.encode("utf-8", "replace"))
    logging.info("the page is %s", file)


def words_of(run: dict) -> str:
    """Returns what a run of misaligned lines is, for people."""
    goes, shift = "no target line near it", run["shift"]
    if shift is not None:
        goes = f"target line i {'+' if shift > 0 else '-'} {abs(shift)}"
    return f"from about line {run['line']} to {run['to']}, source line i goes with {goes}"


def clean(config: ConfigDict, examined: dict[str, Split]) -> None:
    """Writes a copy of all splits in which train lacks the pairs to drop, and dropped.tsv."""
    folder, data = paths.path(config.audit.clean), config.data
    languages = data.source_language, data.target_language
    for name, split in examined.items():
        masks = {fault: split.masks[fault] for fault in drop_names(config) if fault in split.masks}
        dropped = np.logical_or.reduce([*masks.values(), np.zeros(len(split.pairs), bool)])
        if name == "train":
            if masks:
                cleaning.write_list(folder / "dropped.tsv", name, split.pairs, masks)
            logging.info("%s: dropped %s of train", folder, quantity(int(dropped.sum()), "pair"))
        else:
            dropped[:] = False  # a test set is scored whole
        cleaning.write_copy(folder, name, split.pairs, languages, ~dropped)
        if split.misaligned:
            lacks_them = dropped[split.masks["misaligned"]].all()
            logging.warning(
                "%s is misaligned from about line %d on, and %s: mend the files first",
                *(name, split.misaligned[0].start + 1),
                "its copy lacks these lines" if lacks_them else "so is its copy",
            )
    written = {name: name if name in examined else "" for name in corpora.SPLITS}
    written |= zip(("source_language", "target_language"), languages, strict=True)
    flags = [f"--config.data.{key}={value}" for key, value in written.items()]
    folder_flag = shlex.quote(f"--config.data.directory={folder}")
    logging.info(
        "to train on the copy: --config.data.corpus=parallel_text %s",
        " ".join([folder_flag, *flags]),
    )
