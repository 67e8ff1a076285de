"""The splits of a config's corpus, as sentence pairs or plain text, and as token ids."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flax.linen as nn
from ml_collections import ConfigDict

from transformer import registry
from transformer.data import corpora, text_files
from transformer.data.tokenizer import Pieces, Vocabulary
from transformer.data.tokens import Tokens, read_tokens, tokenise
from transformer.errors import UserError
from transformer.models import fields


def final_split(config: ConfigDict) -> str:
    """Returns the split of the final score: `evaluate.split`, or 'validation' without a test set.

    The test set is missing if `evaluate.split` is empty, or names an empty key of `config.data`
    (`evaluate.split` = 'test' and `data.test` = '').
    """
    split = config.evaluate.split
    return split if name_and_key(config, split)[0] else "validation"


def load_all(config: ConfigDict, load: Callable[[ConfigDict, str], Any]) -> dict[str, Any]:
    """Returns {split: load(config, split)} for all splits that a run reads.

    All are loaded before training, so that a missing file is an early error.
    """
    corpora.local_folder(config.data.data_dir)  # raises UserError for a bucket
    names = dict.fromkeys(("train", "validation", final_split(config)))
    return {split: load(config, split) for split in names}


def fill_in_fingerprint(
    config: ConfigDict, workdir: Path, saved_config: ConfigDict | None, train: Any
) -> None:
    """Sets `config.data.fingerprint` to the training split's.

    `saved_config` is as in a task's `prepare`. UserError if a resumed run was trained on other
    data.
    """
    config.data.fingerprint = train.fingerprint
    # Empty if config.json was lost, or has no such key.
    if saved_config and saved_config.data.get("fingerprint", "") not in ("", train.fingerprint):
        raise UserError(
            f"{workdir} was trained on other data: "
            f"{' or '.join(train.files) or config.data.corpus} has changed since "
            "(config.data.fingerprint); restore the old data, or give another --workdir"
        )


def name_and_key(config: ConfigDict, split: str) -> tuple[str, str]:
    """Returns the corpus's name of a split, and the config key that sets it.

    'train', 'validation' and 'test' have a key in `config.data`; other names are the corpus's own.
    """
    if split in corpora.SPLITS:
        return config.data.get(split, split), f"config.data.{split}"
    return split, "config.evaluate.split"


def log_origin(config: ConfigDict, split: str) -> None:
    """Logs the source of a split, and the folder of its cached token ids."""
    name, _ = name_and_key(config, split)
    message = "split %s: %r, config.data.directory=%r, config.data.data_dir=%r"
    logging.info(message, split, name, config.data.directory, config.data.data_dir)


def fill_in_languages(config: ConfigDict, saved_config: ConfigDict | None = None) -> None:
    """Fills in the one language that the config may leave empty.

    A resumed run takes it from `saved_config`. A new run takes it from the training files: de for
    train.de beside train.en.
    """
    data = config.data
    if saved_config is not None:
        data.source_language = data.source_language or saved_config.data.get("source_language", "")
        data.target_language = data.target_language or saved_config.data.get("target_language", "")
    if data.corpus == "parallel_text" and bool(data.source_language) != bool(data.target_language):
        known = data.source_language or data.target_language
        other = text_files.other_language(corpora.folder(data.directory), data.train, known)
        data.source_language = data.source_language or other
        data.target_language = data.target_language or other


def pairs(config: ConfigDict, split: str) -> corpora.Corpus:
    """Returns the pairs of 'train', 'validation', 'test' or another split of the corpus.

    A mixture of several corpora also has the validation set if `data.validation` is empty.
    """
    data = config.data
    name, key = name_and_key(config, split)
    languages = data.source_language, data.target_language
    if split == "validation" and not name and data.train.endswith(".toml"):
        folder = corpora.folder(data.directory)
        return corpora.parallel_text(folder, data.train, languages, key, held_out=True)
    where = {"directory": data.directory, "data_dir": data.data_dir, "key": key}
    return corpora.load(data.corpus, name, languages, **where)


def viewed(config: ConfigDict, train: corpora.Corpus) -> corpora.Corpus:
    """Returns the training pairs, or their views if config.data.views names any."""
    if not config.data.get("views"):
        return train
    return registry.load(registry.VIEWED["corpus"])(config, train)


def further_references(config: ConfigDict, split: str, size: int) -> list[list[str]]:
    """Returns the lines of each file of config.evaluate.references; [] unless `split` is final.

    UserError for a file that is missing or has not `size` lines.
    """
    key = "config.evaluate.references"
    references = []
    names = config.evaluate.references if split == final_split(config) else ""
    for name in filter(None, names.split(",")):
        [lines] = corpora.load_text(name, directory=config.data.directory, key=key).read()
        if len(lines) != size:
            raise UserError(
                f"{key}: {name} has {len(lines)} lines and the split {split!r} has {size}: line i "
                "must translate line i of the source"
            )
        references.append(lines)
    return references


def text(config: ConfigDict, split: str) -> corpora.Corpus:
    """Returns the lines of the files that config.data.SPLIT or evaluate.split names."""
    name, key = name_and_key(config, split)
    return corpora.load_text(name, directory=config.data.directory, key=key)


def tokens(
    config: ConfigDict, corpus: corpora.Corpus, vocabulary: Vocabulary | Pieces, what: str
) -> Tokens:
    """Returns a corpus's token ids, cached under `data.data_dir`; `what` labels the progress."""
    return tokenise(corpus, vocabulary, _cache(config), what)


def prepared_tokens(config: ConfigDict, vocabulary: Vocabulary | Pieces) -> Tokens:
    """Returns the token ids of the training split of a prepared config, without its corpus."""
    return read_tokens(config.data.fingerprint, vocabulary, _cache(config))


def _cache(config: ConfigDict) -> Path:
    return Path(corpora.local_folder(config.data.data_dir), "tokens")


def evaluation_tokens(
    config: ConfigDict, corpus: corpora.Corpus, vocabulary: Vocabulary, split: str, model: nn.Module
) -> Tokens:
    """Returns the token ids of every sentence of a split that `model` is scored on.

    UserError if a sentence is longer than the model's positions.
    """
    ids = tokens(config, corpus, vocabulary, f"tokenise {split}")
    longest = int(max(lengths.max() for lengths in ids.lengths))
    what = f"the {longest} pieces of a sentence of the split {split!r}"
    fields.check_positions(model, longest, what)
    return ids
