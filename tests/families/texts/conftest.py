"""The reviews on a disk, and a finished run on them; `configure` is each file's own."""

import pytest
from families.texts import reviews

from transformer.modes import train


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reviews")
    reviews.write(folder)
    return folder


@pytest.fixture(scope="module")
def trained(configure, folder):
    train.train(configure(), folder / "run")
    return folder / "run"
