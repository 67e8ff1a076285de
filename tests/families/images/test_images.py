"""The arrays of an image batch: what a view shows, and that its randomness is the item's own."""

import numpy as np
from families.images.miniature_images import encoded, patterns
from helpers import tiny
from PIL import Image

from transformer.families.images import images
from transformer.families.images.images import ImageView as View

AUGMENTED = View(8, 1, 1.0, padding=2, flip=True, min_area=0.3)


class Corpus:
    """20 grey images of 8 x 8 of the classes 0 to 2."""

    def __init__(self):
        self.images, self.labels = patterns(20)

    def read(self, indices):
        contents = [encoded(self.images[i]) for i in indices]
        return contents, self.labels[list(indices)], [f"image {i}" for i in indices]


def assembled(view, items, key=(0, 0), threads=1, rows=None):
    items = np.array(items)
    shape = (rows or len(items), 1)
    class_ids = np.array([7, 5, 6])
    arguments = class_ids, view, threads, items, np.arange(len(items)), shape, key
    return images.assemble(Corpus(), *arguments)


def test_a_batch_is_the_images_their_classes_and_weights():
    batch = assembled(View(8, 1, 1.0), [4, 2, 9], rows=4)
    corpus = Corpus()
    assert np.array_equal(batch["inputs"]["images"][:3, ..., 0], corpus.images[[4, 2, 9]])
    assert not batch["inputs"]["images"][3].any()
    classes = [(7, 5, 6)[label] for label in corpus.labels[[4, 2, 9]]]
    assert batch["targets"].tolist() == [*classes, 0]
    assert batch["weights"].tolist() == [1, 1, 1, 0]


def test_threads_change_nothing():
    one, three = (assembled(AUGMENTED, range(20), threads=n) for n in (1, 3))
    tiny.assert_same_bits(three, one)


def test_another_batch_seed_or_item_has_another_augmentation():
    keys = ((0, 0), (0, 1), (1, 0), (1, 1))
    views = {assembled(AUGMENTED, [4], key)["inputs"]["images"].tobytes() for key in keys}
    assert len(views) == 4
    flips = assembled(View(8, 1, 1.0, flip=True), list(range(20)))["inputs"]["images"][..., 0]
    mirrored = [np.array_equal(x[:, ::-1], y) for x, y in zip(flips, Corpus().images, strict=True)]
    same = [np.array_equal(x, y) for x, y in zip(flips, Corpus().images, strict=True)]
    assert all(np.logical_xor(mirrored, same))
    assert 4 < sum(mirrored) < 16


def test_a_padded_crop_is_the_image_moved_by_up_to_the_padding():
    image = Corpus().images[0]
    padded = np.pad(image, 2)
    crops = {(y, x): padded[y : y + 8, x : x + 8].tobytes() for y in range(5) for x in range(5)}
    view = View(8, 1, 1.0, padding=2)
    seen = {assembled(view, [0], (0, t))["inputs"]["images"].tobytes() for t in range(200)}
    assert seen == set(crops.values())


def test_the_central_square_is_seen_of_an_image_of_another_size():
    image = Image.new("RGB", (40, 20), "black")
    image.paste("white", (10, 0, 30, 20))  # the central square
    assert images.viewed(image, View(8, 3, 1.0), None).min() == 255
    image.paste("red", (15, 5, 25, 15))  # its central half
    red = images.viewed(image, View(4, 3, 0.5), None)
    assert (red[..., 0].min(), red[..., 1:].max()) == (255, 0)
    assert images.central_box((8, 4), 0.5) == (3, 1, 5, 3)


def test_random_boxes_are_inside_with_the_area_and_shape_they_should_have():
    rng = np.random.default_rng(0)
    boxes = np.array([images.random_box((50, 40), 0.25, rng) for _ in range(300)])
    left, top, right, bottom = boxes.T
    assert left.min() >= 0 <= top.min()
    assert right.max() <= 50
    assert bottom.max() <= 40
    area, ratio = (right - left) * (bottom - top) / 2000, (right - left) / (bottom - top)
    assert 0.24 < area.min() < 0.3 < 0.8 < area.max() <= 1
    assert 0.72 < ratio.min() < 0.8 < 1.25 < ratio.max() < 1.38
    assert images.random_box((100, 1), 0.9, rng) is None


def test_grey_and_colour_become_each_other():
    colour = encoded(np.full((4, 4, 3), (255, 0, 0), np.uint8))
    assert images.viewed(images.decode(colour, "", 1), View(4, 1, 1.0), None).shape == (4, 4, 1)
    grey = images.viewed(images.decode(encoded(Corpus().images[0]), "", 3), View(8, 3, 1.0), None)
    assert np.array_equal(grey, np.repeat(Corpus().images[0][..., None], 3, axis=-1))
