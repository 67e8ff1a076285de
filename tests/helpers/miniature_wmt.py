"""Miniature WMT 2014 archives, laid where an unmodified TFDS finds them.

TFDS trusts an archive that lies in its download folder under the name of the real one's sha256 with
an .INFO file beside it, as after an earlier download; so neither a network nor a patch is needed.
"""

import gzip
import io
import itertools
import json
import os
import pathlib
import tarfile

from helpers import corpora
from tensorflow_datasets.core.download import checksums, resource
from tensorflow_datasets.translate import wmt

from transformer.data import tfds_corpora

# Where the real archives keep the sentences of one language; `{pair}` is de-en, `{src}` is de.
TRAIN = {
    "training-parallel-europarl-v7.tgz": "training/europarl-v7.{pair}.{language}",
    "training-parallel-commoncrawl.tgz": "commoncrawl.{pair}.{language}",
    "training-parallel-nc-v9.tgz": "training/news-commentary-v9.{pair}.{language}",
    "training-parallel-un.tgz": "un/undoc.2000.{pair}.{language}",
    "training-giga-fren.tar": "giga-fren.release2.fixed.{language}.gz",
}
VALIDATION = "dev/newstest2013.{language}"
TEST = "dev/newstest2014-{src}en-{side}.{language}.sgm"


def write(data_dir, corpus, train, validation, test):
    """Archives from which load(corpus, split, data_dir=data_dir) prepares the given sentences.

    `corpus` is wmt14_translate/de-en or /fr-en; each split a list of (sentence in that language,
    English sentence). The archives share the training pairs: each has every n-th. TFDS gives them
    back in an order of its own, the same each time. One corpus a `data_dir`: the real archives
    hold all languages, these only one pair.
    """
    pair = corpus.split("/")[1]
    src = pair.split("-")[0]
    urls = archives(corpus, data_dir)
    parts = [url for url in urls if os.path.basename(url) in TRAIN]
    for url in urls:
        name = os.path.basename(url)
        members = {}
        for k, (language, side) in enumerate(((src, "src"), ("en", "ref"))):
            fill = {"pair": pair, "src": src, "language": language, "side": side}
            if url in parts:
                lines = [p[k] for p in train[parts.index(url) :: len(parts)]]
                members[TRAIN[name].format(**fill)] = corpora.lines(lines)
            else:
                members[VALIDATION.format(**fill)] = corpora.lines([p[k] for p in validation])
                members[TEST.format(**fill)] = _sgml([p[k] for p in test], language)
        place(url, pathlib.Path(data_dir, "downloads", "wmt14_translate"), tar(members))


def tar(members):
    """The bytes of an archive of {name: content}; what is named .gz is compressed in it."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, content in members.items():
            content = gzip.compress(content) if name.endswith(".gz") else content
            header = tarfile.TarInfo(name)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))
    return file.getvalue()


def place(url, folder, content):
    """Puts a tar archive where TFDS would store its download of `url`."""
    name = os.path.basename(url)
    path = folder / resource.get_dl_fname(url, checksums.get_all_url_infos()[url].checksum)
    folder.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    about = json.dumps({"original_fname": name, "urls": [url]})
    path.with_name(path.name + ".INFO").write_text(about)


def archives(corpus, data_dir):
    """The URLs of a corpus's archives."""
    config = tfds_corpora.WMT[corpus]
    subsets = tfds_corpora.Wmt14(config=config, data_dir=str(data_dir)).subsets.values()
    parts = [wmt.DATASET_MAP[name] for name in itertools.chain.from_iterable(subsets)]
    language = config.language_pair[0]
    automatic = [part for part in parts if not part.get_manual_dl_files(language)]
    return list(dict.fromkeys(url for part in automatic for url in part.get_url(language)))


def _sgml(lines, language):
    segments = "".join(f'<seg id="{i}">{line}</seg>\n' for i, line in enumerate(lines, start=1))
    return f'<refset trglang="{language}">\n<doc>\n{segments}</doc>\n</refset>\n'.encode()
