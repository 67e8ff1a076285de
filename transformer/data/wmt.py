"""WMT 2014 by TFDS's builder: where its archives are, and its text read line by line."""

import contextlib
import gzip
import itertools
import os
import pathlib
from collections.abc import Iterator

from tensorflow_datasets.core import DatasetBuilder
from tensorflow_datasets.core.download import checksums as tfds_checksums
from tensorflow_datasets.core.download import resource
from tensorflow_datasets.translate import wmt, wmt14

from transformer.data import builders
from transformer.runtime import memory

BUILDER = wmt14.Wmt14Translate
# {name of a corpus: its TFDS config}
CORPORA = {f"{BUILDER.name}/{pair}": config for pair, config in BUILDER.builder_configs.items()}


def prepare(corpus: str, split: str, data_dir: str) -> DatasetBuilder:
    """Returns the TFDS builder of a corpus of CORPORA, prepared under `data_dir`.

    UserError if it is not prepared, and an archive is neither on disk nor reachable.
    """
    otherwise = "train on your own files with the corpus 'parallel_text'"
    check = lambda: builders.check_archives(corpus, archives(corpus, data_dir), otherwise)
    with line_by_line():
        return builders.prepare_corpus(BUILDER, CORPORA[corpus], data_dir, split, check)


def archives(corpus: str, data_dir: str) -> dict[str, tuple[pathlib.Path, pathlib.Path]]:
    """Returns {URL: (manual, downloaded)}, the two places where TFDS looks for each archive.

    `manual` is where a user puts an archive by hand (TFDS checks its sha256), `downloaded` where
    TFDS keeps its own download, with an .INFO file.
    """
    folder = pathlib.Path(data_dir) / "downloads"
    # Not data_dir: a builder reads the corpus prepared there, which may be damaged.
    translations = BUILDER(config=CORPORA[corpus], data_dir=str(folder))
    language = translations.builder_config.language_pair[0]
    known = tfds_checksums.get_all_url_infos()
    places = {}
    for name in itertools.chain.from_iterable(translations.subsets.values()):
        part = wmt.DATASET_MAP[name]
        if part.get_manual_dl_files(language):
            continue  # behind a web form; if it is missing, TFDS's error says where to get it
        for url in part.get_url(language):
            file = resource.get_dl_fname(url, known[url].checksum if url in known else None)
            manual = folder / "manual" / os.path.basename(url)
            places[url] = manual, folder / translations.name / file
    return places


def _pairs(first: str, second: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields the same examples as TFDS's _parse_parallel_sentences, reading line by line.

    TFDS holds both files in memory, as bytes and as lines: 16 GB for French-English.
    """
    if first.endswith(".sgm"):
        yield from _tfds_pairs(first, second)
        return
    files = first, second
    languages = [name.removesuffix(".gz").rpartition(".")[2] for name in files]
    with contextlib.ExitStack() as stack:
        sides = []
        for name in files:
            opener = gzip.open if name.endswith(".gz") else open
            lines = stack.enter_context(opener(name, "rb"))
            sides.append(line.removesuffix(b"\n").decode() for line in lines)
        # TFDS's keys: file 0, line `number`.
        for number, pair in enumerate(zip(*sides, strict=True)):
            yield f"0/{number}", dict(zip(languages, pair, strict=True))


_tfds_pairs = wmt._parse_parallel_sentences


@contextlib.contextmanager
def line_by_line() -> Iterator[None]:
    """Makes TFDS read WMT's text line by line; returns freed memory to the system at the end.

    The allocator that launch.py sets would keep gigabytes of freed memory for the whole run.
    """
    # Monkey patch: TFDS calls the parser by this module-level name.
    wmt._parse_parallel_sentences = _pairs
    try:
        yield
    finally:
        wmt._parse_parallel_sentences = _tfds_pairs
        memory.return_freed()
