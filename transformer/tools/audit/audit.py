"""--mode=audit: looks for faults in the sentence pairs of a config, before training."""

import logging
import re
import shlex
from pathlib import Path

import numpy as np
from ml_collections import ConfigDict

from transformer.data import corpora, text_files
from transformer.errors import UserError, check_value, quantity
from transformer.runtime import paths
from transformer.tasks import splits, vocabularies
from transformer.tools.audit import audit_page, faults, line_measures, raw_pairs, scripts
from transformer.tools.audit.audit_page import Split
from transformer.tools.audit.line_measures import Expected
from transformer.tools.pages import page


def audit(config: ConfigDict, folder: Path) -> None:
    """Prints the faults of each split, with their first line numbers: a table, or one JSON line.

    Writes `audit.page`; with `audit.lines` a file of all faulty pairs; with `audit.clean` a folder
    with a copy without the pairs that have a fault of `audit.drop`.
    """
    check(config)
    splits.fill_in_languages(config)
    pairs = {split: open_split(config, split) for split in names(config)}
    expected = expectations(config, folder, pairs["train"])
    examined = {name: audit_page.examine(name, x, expected) for name, x in pairs.items()}
    audit_page.compare_with_train(examined)
    result = {name: audit_page.summary(split) for name, split in examined.items()}
    if config.audit.page:
        write_page(config, examined, result)
    if config.audit.lines:
        file = paths.path(config.audit.lines)
        for name, split in examined.items():
            raw_pairs.write_list(file, name, split.pairs, split.masks)
        logging.info("all faulty pairs are in %s", file)
    if config.audit.clean:
        clean(config, examined)
    tables = "\n\n".join(audit_page.table(name, values) for name, values in result.items())
    page.show(tables, result)


def check(config: ConfigDict) -> None:
    """Raises UserError for invalid values of `config.audit`, before anything is read."""
    options = config.audit
    known = [name for name in faults.FAULTS if name not in faults.OF_OTHER_SPLITS]
    for name in drop_names(config):
        check_value("audit.drop", name, known)
    if options.page:
        page.check_writable(paths.path(options.page), "config.audit.page")
    for key in ("lines", "clean"):
        if options[key]:
            raw_pairs.check_new(options[key], key)


def drop_names(config: ConfigDict) -> list[str]:
    """Returns the faults whose pairs are left out of a cleaned copy."""
    return [name.strip() for name in config.audit.drop.split(",")]


def names(config: ConfigDict) -> list[str]:
    """Returns the splits to audit: the config's splits whose names are not empty."""
    if not config.data.train:
        raise UserError("config.data.train is empty: it names the pairs to look at")
    # Each split once: evaluate.split is 'test' in most configs.
    every = dict.fromkeys((*corpora.SPLITS, config.evaluate.split))
    return [split for split in every if splits.name_and_key(config, split)[0]]


def open_split(config: ConfigDict, split: str) -> raw_pairs.Pairs:
    """Returns the raw pairs of a split; parallel text is read from its files."""
    data = config.data
    name, key = splits.name_and_key(config, split)
    if data.corpus != "parallel_text" or corpora.pair_file(name):
        return raw_pairs.corpus_pairs(splits.pairs(config, split))
    codes = data.source_language, data.target_language
    # The files are found, but not opened as a corpus, which would refuse text that is not UTF-8.
    return raw_pairs.file_pairs(text_files.find(paths.path(data.directory), name, codes, key))


def expectations(config: ConfigDict, folder: Path, train: raw_pairs.Pairs) -> list[Expected]:
    """Returns the languages, script, maximum length and vocabulary, or None, of each side."""
    vocab = None, None
    if config.vocabulary.model:
        vocab = vocabularies.load(config, vocabularies.given(config), config.vocabulary.model)
    elif all((folder / "vocabulary" / name).is_file() for name in vocabularies.names(config)):
        vocab = vocabularies.read(folder, config)
        logging.info("the vocabulary is that of %s", folder)
    else:
        logging.info("no vocabulary: lengths are counted in words, which are fewer than pieces")
    both = config.data.source_language, config.data.target_language
    # py3langid's codes have no country: ko-KR becomes ko.
    codes = [re.split("[-_]", code.lower())[0] for code in both]
    for code in sorted({*codes} - {*scripts.identifier().labels}):
        logging.info("py3langid does not know the language %r: its lines may be in any", code)
    expected = []
    for side, script in enumerate(line_measures.side_scripts(train.read)):
        languages = codes[side], codes[1 - side]
        expected.append(Expected(languages, script, config.data.max_length, vocab[side]))
    return expected


def write_page(config: ConfigDict, examined: dict[str, Split], result: dict) -> None:
    """Writes the page: a section per split."""
    # The text is read again for the examples alone: the first lines of each fault.
    sections = []
    for name, split in examined.items():
        numbers = {line for fault in result[name]["faults"].values() for line in fault["lines"]}
        texts = raw_pairs.texts(split.pairs, numbers)
        sections.append(audit_page.section(name, result[name], split.masks, texts))
    data = config.data
    title = f"Audit of {data.source_language}–{data.target_language} pairs"
    page.write(paths.path(config.audit.page), title, sections)


def clean(config: ConfigDict, examined: dict[str, Split]) -> None:
    """Writes a copy of all splits in which train lacks the pairs to drop, and dropped.tsv."""
    folder, data = paths.path(config.audit.clean), config.data
    codes = data.source_language, data.target_language
    for name, split in examined.items():
        # Other splits stay whole: scores on a part of a test set are not comparable with others.
        dropped = np.zeros(len(split.pairs), bool)
        if name == "train":
            masks = {fault: split.masks[fault] for fault in drop_names(config)}
            dropped = np.logical_or.reduce([*masks.values()])
            raw_pairs.write_list(folder / "dropped.tsv", name, split.pairs, masks)
            logging.info("%s: dropped %s of train", folder, quantity(int(dropped.sum()), "pair"))
        raw_pairs.write_copy(folder, name, split.pairs, codes, ~dropped)
    values = {"corpus": "parallel_text", "directory": folder}
    # A split that the copy lacks gets an empty name, or training would look for its files there.
    values |= {name: name if name in examined else "" for name in corpora.SPLITS}
    values |= zip(("source_language", "target_language"), codes, strict=True)
    flags = [f"--config.data.{key}={value}" for key, value in values.items()]
    logging.info("to train on the copy: %s", shlex.join(flags))
