"""Corpora that TFDS prepares, as ArrayRecord files: WMT 2014, and the images of a family.

`prepare_corpus` runs the builder of a missing or damaged corpus, in one process, under a lock.
Archives are looked for before TFDS retries for minutes, and no TensorFlow is needed.
"""

import contextlib
import functools
import gzip
import importlib.util
import io
import itertools
import logging
import os
import pathlib
import resource
import shutil
import sys
import threading
import types
import urllib.parse
from collections.abc import Callable, Iterator

import tensorflow_datasets as tfds
from tensorflow_datasets.core import shuffle
from tensorflow_datasets.core.download import checksums as tfds_checksums
from tensorflow_datasets.core.download import extractor
from tensorflow_datasets.core.download import resource as tfds_resource
from tensorflow_datasets.translate import wmt, wmt14

from transformer.errors import UserError
from transformer.runtime import checksums, memory, paths
from transformer.runtime.lock import held

Wmt14 = wmt14.Wmt14Translate
# {name of a corpus: its TFDS config}
WMT = {f"{Wmt14.name}/{pair}": config for pair, config in Wmt14.builder_configs.items()}
PROBE_SECONDS = 9  # per host: WMT has two, and the error is to come within 20 s


def prepare_corpus(
    corpus: type[tfds.core.DatasetBuilder],
    config: tfds.core.BuilderConfig | None,
    data_dir: str,
    split: str,
    check: Callable[[], None] = lambda: None,
) -> tfds.core.DatasetBuilder:
    """Returns the TFDS builder of a corpus, whose `split` has no checksum mismatch.

    Where the corpus is missing or damaged, one process prepares it and the others wait. `check`
    raises UserError if it cannot be prepared, before a damaged corpus is removed.
    """
    # One builder to prepare the corpus, a new one to read it.
    build = functools.partial(corpus, config=config, data_dir=data_dir)
    # data_dir/name/config/version, or data_dir/name/version of a corpus without configs.
    home, version = pathlib.Path(data_dir, corpus.name), getattr(config, "version", None)
    folder = home / (config.name if config else "") / str(version or corpus.VERSION)
    # Double-checked locking: a run that finds the corpus prepared takes no lock.
    info = folder / "dataset_info.json"
    if not info.exists() or _corrupt_files(folder, split):
        paths.make_folder(home)
        place = home / ".lock"  # one lock for all configs of a corpus
        place.touch()
        with held(place):
            # Again, under the lock: another process may have prepared the corpus meanwhile.
            if corrupt := _corrupt_files(folder, split):
                logging.warning("damaged: %s; preparing the corpus again", ", ".join(corrupt))
            if corrupt or not info.exists():
                name = folder.parent.relative_to(data_dir)
                logging.info("preparing %s in config.data.data_dir=%s", name, data_dir)
                check()
                with paths.full_disk_as_user_error(pathlib.Path(data_dir)):
                    _prepare(build, folder)
    with _quiet():
        builder = build()  # reads dataset_info.json
    formats = sorted(f.value for f in builder.info.available_file_formats())
    if "array_record" not in formats:
        raise UserError(
            f"{folder} holds the corpus as {formats[0]}, array_record is needed: set another "
            "data_dir or remove that folder"
        )
    return builder


def _prepare(build: Callable[[], tfds.core.DatasetBuilder], folder: pathlib.Path) -> None:
    """Prepares a corpus in `folder`, replacing what is there, and writes its checksums."""
    # TFDS would keep a damaged corpus, or what a killed process left, because the folder exists.
    for left in (folder, *folder.parent.glob(f"incomplete.*_{folder.name}")):
        shutil.rmtree(left, ignore_errors=True)
    with _quiet(), without_tensorflow():
        build().download_and_prepare(file_format="array_record")
    # Last: the checksums mark the corpus as complete.
    paths.write_file(folder / checksums.NAME, checksums.checksums_of(folder))


def _corrupt_files(folder: pathlib.Path, split: str) -> list[str]:
    """Returns the names of a corpus's damaged files, without the shards of other splits.

    Hashing takes a core about a second per GB, and WMT's training split has several GB. A corpus
    without checksums was prepared by TFDS elsewhere, and is taken as undamaged.
    """
    wanted = lambda name: ".array_record-" not in name or f"-{split}.array_record-" in name
    return checksums.corrupt_files(folder, wanted=wanted, alone=True) or []


@contextlib.contextmanager
def _quiet():
    """Keeps TFDS off standard output, which is for results; progress bars only on a terminal."""
    tfds.display_progress_bar(sys.stderr.isatty())
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel("ERROR")
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)


def check_archives(
    corpus: str, places: dict[str, tuple[pathlib.Path, pathlib.Path]], alternative: str
) -> None:
    """Raises UserError if an archive is neither on disk nor reachable.

    TFDS would retry for minutes, then raise from deep inside. `places` is {URL: (manual,
    downloaded)}: where a user puts an archive by hand, and where TFDS keeps its own download.
    `alternative` is what the user can do without the archives.
    """
    missing = [
        url
        for url, (manual, downloaded) in places.items()
        if not manual.exists() and not tfds_resource.is_locally_cached(downloaded)
    ]
    hosts = [urllib.parse.urlparse(url).netloc for url in missing]
    # One URL of each host is enough: of hosts a b a, `index` gives URLs 0 and 1.
    for url in (missing[hosts.index(host)] for host in dict.fromkeys(hosts)):
        if reason := _unreachable(url):
            raise UserError(
                f"{corpus}: cannot download {url} ({reason}): download {' '.join(missing)} "
                f"elsewhere and put the files, under these names, into {places[url][0].parent}; or "
                f"{alternative}"
            )


def _unreachable(url: str) -> str:
    """Returns why a URL does not answer within PROBE_SECONDS, or ''."""
    import requests  # TFDS downloads with it: the same proxies and certificates

    reason = [f"no answer within {PROBE_SECONDS} s"]

    # A list, because the thread has no return value; the default stands if the join times out.
    def probe():
        try:
            with requests.get(url, stream=True, timeout=PROBE_SECONDS) as response:
                ok = response.ok
                reason[0] = "" if ok else f"HTTP {response.status_code} {response.reason}"
        except requests.RequestException as error:
            reason[0] = f"{type(error).__name__}, no network?"

    # In a thread, because the timeout of requests does not cover the DNS lookup.
    thread = threading.Thread(target=probe, daemon=True)
    thread.start()
    thread.join(PROBE_SECONDS)
    return reason[0]


@contextlib.contextmanager
def without_tensorflow() -> Iterator[None]:
    """Replaces the few TensorFlow calls of TFDS where TensorFlow is not installed.

    These extract archives, and shuffle more than 1 GB of pairs through BUCKETS_NUMBER open files,
    for which the limit of open files is raised.
    """
    if importlib.util.find_spec("tensorflow"):
        yield
        return
    gfile = types.SimpleNamespace(GFile=open, exists=os.path.exists, remove=os.remove)
    tf = types.SimpleNamespace(
        io=types.SimpleNamespace(gfile=gfile),
        compat=types.SimpleNamespace(as_text=os.fspath),
        errors=types.SimpleNamespace(ResourceExhaustedError=()),
    )
    # Monkey patch: these two modules of TFDS call TensorFlow by the name `tf`.
    before = extractor.tf, shuffle.tf
    soft, hard = limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The soft limit is raised as far as the hard one allows, and restored at the end.
    raised = soft + shuffle.BUCKETS_NUMBER
    if hard != resource.RLIM_INFINITY:
        raised = min(raised, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    extractor.tf = shuffle.tf = tf
    try:
        yield
    finally:
        extractor.tf, shuffle.tf = before
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def prepare_wmt(corpus: str, split: str, data_dir: str) -> tfds.core.DatasetBuilder:
    """Returns the TFDS builder of a corpus of WMT, prepared under `data_dir`.

    Its text is read line by line. UserError if it is not prepared, and an archive is neither on
    disk nor reachable.
    """
    otherwise = "train on your own files with the corpus 'parallel_text'"
    check = lambda: check_archives(corpus, wmt_archives(corpus, data_dir), otherwise)
    # Monkey patch: TFDS calls the parser by this module-level name.
    wmt._parse_parallel_sentences = _wmt_pairs
    try:
        return prepare_corpus(Wmt14, WMT[corpus], data_dir, split, check)
    finally:
        wmt._parse_parallel_sentences = _tfds_pairs
        # The allocator that launch.py sets would keep gigabytes of freed memory for the whole run.
        memory.return_freed()


def wmt_archives(corpus: str, data_dir: str) -> dict[str, tuple[pathlib.Path, pathlib.Path]]:
    """Returns {URL: (manual, downloaded)}, the two places where TFDS looks for each archive.

    `manual` is where a user puts an archive by hand (TFDS checks its sha256), `downloaded` where
    TFDS keeps its own download, with an .INFO file.
    """
    folder = pathlib.Path(data_dir) / "downloads"
    # Not data_dir: a builder reads the corpus prepared there, which may be damaged.
    translations = Wmt14(config=WMT[corpus], data_dir=str(folder))
    language = translations.builder_config.language_pair[0]
    known = tfds_checksums.get_all_url_infos()
    places = {}
    for name in itertools.chain.from_iterable(translations.subsets.values()):
        part = wmt.DATASET_MAP[name]
        if part.get_manual_dl_files(language):
            continue  # behind a web form; if it is missing, TFDS's error says where to get it
        for url in part.get_url(language):
            file = tfds_resource.get_dl_fname(url, known[url].checksum if url in known else None)
            manual = folder / "manual" / os.path.basename(url)
            places[url] = manual, folder / translations.name / file
    return places


def _wmt_pairs(first: str, second: str) -> Iterator[tuple[str, dict[str, str]]]:
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
