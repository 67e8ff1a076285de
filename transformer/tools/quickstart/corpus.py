"""The generated pairs as a corpus that TFDS prepares."""

import hashlib
import pathlib

import tensorflow_datasets as tfds

from transformer.data.builders import RecordsConfig
from transformer.runtime import progress
from transformer.tools.quickstart import grammar, lexicon, morphology, phrases


def corpus() -> RecordsConfig:
    """Returns the content of the corpus, {'ko': ..., 'en': ...} in each record.

    It is named after the seed, the table of words and the code: all that the pairs depend on.
    """
    # Whole files: an edit, even of a comment, gives another name, under which TFDS prepares anew.
    files = [lexicon.FILE, *(module.__file__ for module in (lexicon, morphology, phrases, grammar))]
    sources = [pathlib.Path(file).read_bytes() for file in files]
    digest = hashlib.sha256(b"%d %s" % (grammar.SEED, b" ".join(sources))).hexdigest()

    def splits():
        with progress.waiting("generate the corpus"):
            pairs = grammar.sentence_pairs(grammar.SEED)
        return {
            split: (len(x), ({"ko": ko, "en": en} for ko, en in x)) for split, x in pairs.items()
        }

    features = tfds.features.Translation(languages=("ko", "en"))
    return RecordsConfig(name=f"ko-en-{digest[:16]}", features=features, splits=splits)
