"""What several files of this folder read."""

import pytest
from helpers.corpora import catalogue, learn

from transformer.data import tokenizer
from transformer.data.tokens import tokenise


@pytest.fixture(scope="session")
def vocabulary():
    """Two different models, so that mixed-up sides would show."""
    return tokenizer.Vocabulary(learn("source"), learn("target", size=300))


@pytest.fixture
def tokenised(vocabulary, tmp_path):
    return lambda source: tokenise(source, vocabulary, tmp_path)


@pytest.fixture
def text(tmp_path):
    """Loads a split of parallel text from a folder of files given as {name: bytes}."""

    def load(files=None, split="train", source="de", target="en"):
        for name, content in (files or {}).items():
            path = tmp_path / "text" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        data_dir, directory = tmp_path / "data", tmp_path / "text"
        return catalogue("parallel_text", split, data_dir, source, target, directory)

    return load
