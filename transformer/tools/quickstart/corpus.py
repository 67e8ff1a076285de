"""Makes the generated pairs a corpus that TFDS prepares."""

import hashlib
import pathlib

import tensorflow_datasets as tfds

from transformer.data.builders import RecordsConfig
from transformer.runtime import progress
from transformer.tools.quickstart import grammar, lexicon, morphology, phrases


def corpus() -> RecordsConfig:
    """Returns the content of the corpus, whose records are {'ko': ..., 'en': ...}.

    The corpus is named after all that the pairs depend on: the seed, the table of words, the code.
    """
    # TFDS compares names only, and serves what it has prepared under a name. The name is a hash of
    # whole files, so that no edit is missed: an edit of a comment gives another name, too.
    files = [lexicon.FILE, *(module.__file__ for module in (lexicon, morphology, phrases, grammar))]
    sources = [pathlib.Path(file).read_bytes() for file in files]
    digest = hashlib.sha256(b"%d %s" % (grammar.SEED, b" ".join(sources))).hexdigest()

    # TFDS calls this only to prepare the corpus, so that the first start alone generates it.
    def splits():
        with progress.waiting("generate the corpus"):
            pairs = grammar.sentence_pairs(grammar.SEED)
        return {
            split: (len(x), ({"ko": ko, "en": en} for ko, en in x)) for split, x in pairs.items()
        }

    features = tfds.features.Translation(languages=("ko", "en"))
    return RecordsConfig(name=f"ko-en-{digest[:16]}", features=features, splits=splits)
