"""WMT 2014 by TFDS's own builder: which archives it needs, and doing without TensorFlow."""

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
from tensorflow_datasets.core.download import checksums, extractor
from tensorflow_datasets.core.download import resource as downloads
from tensorflow_datasets.translate import wmt, wmt14

from transformer.errors import UserError

CORPORA = tuple(f"wmt14_translate/{pair}" for pair in wmt14.Wmt14Translate.builder_configs)
PROBE_SECONDS = 9  # two hosts, and still an answer within 20 s


def builder(corpus: str, data_dir: str) -> wmt14.Wmt14Translate:
    """The catalogue's builder of a corpus in CORPORA."""
    return wmt14.Wmt14Translate(config=corpus.split("/")[1], data_dir=data_dir)


def home(corpus: str, data_dir: str) -> pathlib.Path:
    """Where TFDS keeps a corpus in CORPORA once it is prepared."""
    version = wmt14.Wmt14Translate.builder_configs[corpus.split("/")[1]].version
    return pathlib.Path(data_dir, corpus, str(version))


def archives(corpus: str, data_dir: str) -> dict[str, tuple[pathlib.Path, pathlib.Path]]:
    """The archives of a corpus in CORPORA by address, each with the two places where TFDS looks for
    it: put there by the user (its sha256 is checked), or downloaded earlier (with an .INFO file).
    """
    folder = pathlib.Path(data_dir) / "downloads"
    translations = builder(corpus, str(folder))  # not data_dir: what is prepared may be damaged
    language = translations.builder_config.language_pair[0]
    known = checksums.get_all_url_infos()
    places = {}
    for name in itertools.chain.from_iterable(translations.subsets.values()):
        part = wmt.DATASET_MAP[name]
        if part.get_manual_dl_files(language):
            continue  # behind a form; if it is not there, TFDS says in words where to get it
        for url in part.get_url(language):
            file = downloads.get_dl_fname(url, known[url].checksum if url in known else None)
            manual = folder / "manual" / os.path.basename(url)
            places[url] = manual, folder / translations.name / file
    return places


def check_archives(corpus: str, data_dir: str) -> None:
    """UserError if an archive is neither on disk nor to be had: TFDS alone would try for minutes,
    then raise from deep inside."""
    places = archives(corpus, data_dir)
    missing = [
        url
        for url, (manual, cached) in places.items()
        if not manual.exists() and not downloads.is_locally_cached(cached)
    ]
    hosts = [urllib.parse.urlparse(url).netloc for url in missing]
    for url in (missing[hosts.index(host)] for host in dict.fromkeys(hosts)):
        if why := _unreachable(url):
            raise UserError(
                f"{corpus}: cannot download {url} ({why}): fetch {' '.join(missing)} elsewhere and "
                f"put the files, under these names, into {places[url][0].parent}; or train on your "
                "own files with the corpus 'parallel_text'"
            )


def _unreachable(url: str) -> str:
    """Why an address does not answer within PROBE_SECONDS, or ''."""
    import requests  # what TFDS downloads with, so that proxies and certificates are the same

    why = [f"no answer within {PROBE_SECONDS} s"]

    def probe():
        try:
            with requests.get(url, stream=True, timeout=PROBE_SECONDS) as response:
                ok = response.ok
                why[0] = "" if ok else f"HTTP {response.status_code} {response.reason}"
        except requests.RequestException as error:
            why[0] = f"{type(error).__name__}, no network?"

    # In a thread, because no timeout of a request covers the look-up of the host's name.
    thread = threading.Thread(target=probe, daemon=True)
    thread.start()
    thread.join(PROBE_SECONDS)
    return why[0]


def _pairs(file: str, other: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields what TFDS's own function of these two files does, but reads text a line at a time.

    TFDS holds both files whole, as bytes and as lines: 16 GB for French-English.
    """
    if file.endswith(".sgm"):
        yield from _tfds_pairs(file, other)
        return
    languages = [name.removesuffix(".gz").rpartition(".")[2] for name in (file, other)]
    with contextlib.ExitStack() as stack:
        opened = [gzip.open if name.endswith(".gz") else open for name in (file, other)]
        sides = [
            (line.removesuffix(b"\n").decode() for line in stack.enter_context(open_(name, "rb")))
            for open_, name in zip(opened, (file, other), strict=True)
        ]
        for number, pair in enumerate(zip(*sides, strict=True)):
            yield f"0/{number}", dict(zip(languages, pair, strict=True))


_tfds_pairs = wmt._parse_parallel_sentences


@contextlib.contextmanager
def frugal() -> Iterator[None]:
    """Has TFDS read WMT's text a line at a time, and gives memory back to the system at the end.

    launch.py's allocator would keep what was freed, gigabytes, for as long as the run takes.
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
    """Gives TFDS the few calls for which it imports TensorFlow even so: to extract an archive, and
    to sort more than 1 GB of pairs, in 1000 open files."""
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
    wanted = soft + shuffle.BUCKETS_NUMBER
    wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    extractor.tf = shuffle.tf = tf
    try:
        yield
    finally:
        extractor.tf, shuffle.tf = before
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
