"""WMT 2014 by TFDS's builder: its archives, and replacements for its use of TensorFlow."""

import contextlib
import ctypes
import gzip
import importlib.util
import itertools
import os
import pathlib
import resource
import threading
import types
import urllib.parse
from collections.abc import Iterator

from tensorflow_datasets.core import shuffle
from tensorflow_datasets.core.download import checksums as tfds_checksums
from tensorflow_datasets.core.download import extractor
from tensorflow_datasets.core.download import resource as downloads
from tensorflow_datasets.translate import wmt, wmt14

from transformer.errors import UserError

CORPORA = tuple(f"wmt14_translate/{pair}" for pair in wmt14.Wmt14Translate.builder_configs)
PROBE_SECONDS = 9  # per host: WMT has two, and the error is to come within 20 s


def builder(corpus: str, data_dir: str) -> wmt14.Wmt14Translate:
    """Returns the TFDS builder of a corpus in CORPORA."""
    return wmt14.Wmt14Translate(config=corpus.split("/")[1], data_dir=data_dir)


def corpus_folder(corpus: str, data_dir: str) -> pathlib.Path:
    """Returns the folder of a corpus in CORPORA once it is prepared."""
    version = wmt14.Wmt14Translate.builder_configs[corpus.split("/")[1]].version
    return pathlib.Path(data_dir, corpus, str(version))


def archives(corpus: str, data_dir: str) -> dict[str, tuple[pathlib.Path, pathlib.Path]]:
    """Returns {URL: (manual, downloaded)}, the two places where TFDS looks for each archive.

    `manual` is where a user puts an archive by hand (TFDS checks its sha256), `downloaded` where
    TFDS keeps its own download, with an .INFO file.
    """
    folder = pathlib.Path(data_dir) / "downloads"
    # Not data_dir: a builder reads the corpus prepared there, which may be damaged.
    translations = builder(corpus, str(folder))
    language = translations.builder_config.language_pair[0]
    known = tfds_checksums.get_all_url_infos()
    places = {}
    for name in itertools.chain.from_iterable(translations.subsets.values()):
        part = wmt.DATASET_MAP[name]
        if part.get_manual_dl_files(language):
            continue  # behind a web form; if it is missing, TFDS's error says where to get it
        for url in part.get_url(language):
            file = downloads.get_dl_fname(url, known[url].checksum if url in known else None)
            manual = folder / "manual" / os.path.basename(url)
            places[url] = manual, folder / translations.name / file
    return places


def check_archives(corpus: str, data_dir: str) -> None:
    """UserError if an archive is neither on disk nor reachable.

    TFDS would retry for minutes, then raise from deep inside.
    """
    places = archives(corpus, data_dir)
    missing = [
        url
        for url, (manual, downloaded) in places.items()
        if not manual.exists() and not downloads.is_locally_cached(downloaded)
    ]
    hosts = [urllib.parse.urlparse(url).netloc for url in missing]
    # One URL of each host is enough.
    for url in (missing[hosts.index(host)] for host in dict.fromkeys(hosts)):
        if reason := _unreachable(url):
            raise UserError(
                f"{corpus}: cannot download {url} ({reason}): download {' '.join(missing)} "
                f"elsewhere and put the files, under these names, into {places[url][0].parent}; or "
                "train on your own files with the corpus 'parallel_text'"
            )


def _unreachable(url: str) -> str:
    """Returns why a URL does not answer within PROBE_SECONDS, or ''."""
    import requests  # TFDS downloads with it: the same proxies and certificates

    reason = [f"no answer within {PROBE_SECONDS} s"]

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
        for number, pair in enumerate(zip(*sides, strict=True)):
            yield f"0/{number}", dict(zip(languages, pair, strict=True))


_tfds_pairs = wmt._parse_parallel_sentences


@contextlib.contextmanager
def line_by_line() -> Iterator[None]:
    """Makes TFDS read WMT's text line by line, and at the end returns free memory to the system.

    The allocator that launch.py sets would keep gigabytes of freed memory for the whole run.
    """
    wmt._parse_parallel_sentences = _pairs
    try:
        yield
    finally:
        wmt._parse_parallel_sentences = _tfds_pairs
        libc = ctypes.CDLL(None)
        if hasattr(libc, "malloc_trim"):  # glibc
            libc.malloc_trim(0)


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
    before = extractor.tf, shuffle.tf
    soft, hard = limits = resource.getrlimit(resource.RLIMIT_NOFILE)
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
