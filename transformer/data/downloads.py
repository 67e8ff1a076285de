"""What TFDS's own builders need: archives that can be downloaded, and no TensorFlow."""

import contextlib
import importlib.util
import os
import pathlib
import resource
import threading
import types
import urllib.parse
from collections.abc import Iterator

from tensorflow_datasets.core import shuffle
from tensorflow_datasets.core.download import extractor
from tensorflow_datasets.core.download import resource as tfds_resource

from transformer.errors import UserError

PROBE_SECONDS = 9  # per host: WMT has two, and the error is to come within 20 s


def check(
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
