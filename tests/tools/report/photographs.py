"""A run that has classified images, written by hand."""

from families.images import miniature_images
from tools.pages import workdirs


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
