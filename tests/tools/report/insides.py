"""Trained models as the sections of a report get them, with random params and items by hand."""

import json
import re

from families.images import miniature_images
from helpers import reversal, tiny
from tools.pages import workdirs

from transformer.tools.report.inside import Inside

SOURCES = ["a b c", "d e f g", "h", "b b"]


def inside(run, model, params, items):
    """An `Inside` of all these items."""
    columns = run.evaluations[-1].result["columns"] if run and run.evaluations else {}
    return Inside(run, model, params, items, list(range(1, len(items) + 1)), columns)


def translating(folder, **changes):
    """A run of a tiny translation model that was never trained, with the vocabulary of letters."""
    size = len(reversal.vocabulary().source)
    model = tiny.model(source_vocab_size=size, target_vocab_size=size, **changes)
    params = tiny.parameters(model, tiny.unpacked(tiny.pairs())["inputs"])
    decode = {f"decode.{name}": value for name, value in reversal.DECODE.items()}
    keys = {"positions": model.options.positions, "d_model": model.options.d_model}
    options = {f"model.{name}": value for name, value in keys.items()}
    workdirs.write(folder, **decode, **options)
    write_vocabulary(workdirs.load(folder), "shared.model", reversal.vocabulary_model())
    items = [{"input": text, "output": text[::-1]} for text in SOURCES]
    return inside(workdirs.load(folder), model, params, items)


def photographed(folder, count, size):
    """A run that has classified images, all as 1 and ever surer of it; their pixels and labels."""
    pixels, labels = miniature_images.patterns(count, size=size)
    for stem in ("train", "test"):
        miniature_images.write_idx(folder, stem, pixels, labels)
    files = {
        "test.image": [f"test-images-idx3-ubyte image {i}" for i in range(count)],
        **{"test.label": [*map(str, labels)], "test.prediction": ["1"] * count},
        "test.probability": [f"0.{i + 10}" for i in range(count)],
        "test.classes": ["0\t1\t1\t1\t1"],
    }
    data = {
        **{"corpus": "own_images", "directory": str(folder), "channels": 1, "size": size},
        **{"train": "train", "test": "test", "data_dir": str(folder / "tfds"), "num_threads": 1},
    }
    changes = {f"data.{key}": x for key, x in {**data, "central_crop": 1.0}.items()}
    result = {"set": "test", "split": "test", "step": 1, "steps": [1], "accuracy": 0.3}
    wrote = {"task": "image_classification", "results": [result], "files": files}
    return workdirs.load(workdirs.write(folder / "run", **wrote, **changes)), pixels, labels


def write_vocabulary(run, name, content):
    """Writes a file of a run's vocabulary."""
    (run.workdir / "vocabulary").mkdir()
    (run.workdir / "vocabulary" / name).write_bytes(content)


def data_of(markup):
    """The data of a picture of attention."""
    return json.loads(re.search(r'json">(.*)</script>', markup.html)[1])
