"""Corpora that TFDS prepares as ArrayRecord files: WMT 2014, and the images of a family.

TensorFlow is not needed. Checksums detect damaged files: ArrayRecord has them per chunk of records,
TFDS per archive.
"""

import contextlib
import functools
import gzip
import logging
import os
import pathlib
import resource
import shutil
import sys
import types
from collections.abc import Iterator

import requests
import tensorflow_datasets as tfds
from tensorflow_datasets.core import shuffle
from tensorflow_datasets.core.download import DownloadError, downloader, extractor
from tensorflow_datasets.translate import wmt, wmt14

from transformer.errors import UserError
from transformer.runtime import memory, paths
from transformer.runtime.lock import held

Wmt14 = wmt14.Wmt14Translate
# {name of a corpus: its TFDS config}
WMT = {f"{Wmt14.name}/{pair}": config for pair, config in Wmt14.builder_configs.items()}


def prepare_corpus(
    corpus: type[tfds.core.DatasetBuilder], config: tfds.core.BuilderConfig | None, data_dir: str
) -> tfds.core.DatasetBuilder:
    """Returns the TFDS builder of a corpus, after preparing a missing one under `data_dir`.

    One process prepares the corpus while other processes wait. UserError if an archive cannot be
    downloaded, or the corpus was prepared in another format.
    """
    # One builder prepares the corpus, a new one reads it.
    build = functools.partial(corpus, config=config, data_dir=data_dir)
    folder = pathlib.Path(build().data_dir)
    if not folder.exists():
        home = pathlib.Path(data_dir, corpus.name)
        paths.make_folder(home)
        with held(home / ".lock"):
            # Check again, because another process may have prepared the corpus meanwhile.
            if not folder.exists():
                logging.info("preparing %s in config.data.data_dir=%s", corpus.name, data_dir)
                _prepare(build(), data_dir)
    builder = build()  # reads dataset_info.json
    formats = sorted(f.value for f in builder.info.available_file_formats())
    if "array_record" not in formats:
        raise UserError(
            f"{folder} holds the corpus as {formats[0]}, array_record is needed: set another "
            "data_dir or remove that folder"
        )
    return builder


def _prepare(builder: tfds.core.DatasetBuilder, data_dir: str) -> None:
    """Prepares a corpus: TFDS writes a folder `incomplete.*`, and renames it at the end."""
    for left in pathlib.Path(builder.data_dir).parent.glob("incomplete.*"):  # of killed processes
        shutil.rmtree(left)
    replace_tensorflow()
    tfds.display_progress_bar(sys.stderr.isatty())
    try:
        with contextlib.redirect_stdout(sys.stderr):  # standard output is for results
            builder.download_and_prepare(file_format="array_record")
    except (requests.RequestException, DownloadError) as error:
        raise UserError(
            f"cannot download an archive of {builder.name} ({error}): download it elsewhere and "
            f"put it, under its name, into {data_dir}/downloads/manual; or train on data of your "
            "own"
        ) from error


def replace_tensorflow() -> None:
    """Replaces the few TensorFlow calls of TFDS by Python's own functions, in this process.

    The calls extract archives, and shuffle over 1 GB of pairs through BUCKETS_NUMBER open files.
    The limit of open files is raised accordingly.
    """
    gfile = types.SimpleNamespace(GFile=open, exists=os.path.exists, remove=os.remove)
    # Monkey patch: two modules of TFDS call TensorFlow by the name `tf`.
    extractor.tf = shuffle.tf = types.SimpleNamespace(
        io=types.SimpleNamespace(gfile=gfile),
        compat=types.SimpleNamespace(as_text=os.fspath),
        errors=types.SimpleNamespace(ResourceExhaustedError=()),
    )
    downloader.MAX_RETRIES = 3  # because 10 take minutes without a network
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = soft + shuffle.BUCKETS_NUMBER
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def prepare_wmt(corpus: str, data_dir: str) -> tfds.core.DatasetBuilder:
    """Returns the TFDS builder of a WMT corpus, prepared line by line."""
    # Monkey patch: TFDS calls the parser by this module-level name.
    wmt._parse_parallel_sentences = parallel_sentences
    builder = prepare_corpus(Wmt14, WMT[corpus], data_dir)
    # launch.py's allocator would keep gigabytes of freed memory for the whole run.
    memory.trim()
    return builder


def parallel_sentences(first: str, second: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields the examples of TFDS's _parse_parallel_sentences, but reads line by line.

    TFDS holds both files in memory, as bytes and as lines, 16 GB for French-English.
    """
    if first.endswith(".sgm"):
        yield from _tfds_sentences(first, second)
        return
    languages = [name.removesuffix(".gz").rpartition(".")[2] for name in (first, second)]
    opener = gzip.open if first.endswith(".gz") else open
    with opener(first, "rb") as first_lines, opener(second, "rb") as second_lines:
        # TFDS's keys: file 0, line `number`.
        for number, pair in enumerate(zip(first_lines, second_lines, strict=True)):
            texts = (line.removesuffix(b"\n").decode() for line in pair)
            yield f"0/{number}", dict(zip(languages, texts, strict=True))


_tfds_sentences = wmt._parse_parallel_sentences
