"""A step is restored bit for bit, also on other devices, or is incomplete."""

import re

import jax
import numpy as np
import pytest
from helpers import tiny
from helpers.checkpoints import VOCABULARY, abstract, checkpoints_of, load, state

from transformer.checkpoints import store, weights
from transformer.distributed import layout
from transformer.errors import UserError
from transformer.runtime import checksums, paths


@pytest.mark.parametrize("num_devices", [1, 8])
def test_arrays_may_be_donated_once_save_returns(opened, num_devices):
    """On a CPU a host copy may share memory with the array, which the next step overwrites."""
    draw = lambda: np.random.default_rng(0).standard_normal((1500, 1000), np.float32)
    whole = layout.make_layout("jit", num_devices=num_devices).replicated
    parameters, moments = jax.device_put(({"kernel": draw()}, {"moment": draw()}), whole)

    @jax.jit
    def unchanged(tree):  # outputs of a compiled program, as those of the train step
        return jax.tree.map(lambda x: x + 0, tree)

    overwrite = jax.jit(lambda tree: jax.tree.map(lambda x: x * 0 - 1, tree), donate_argnums=0)
    parameters, moments, spare = map(unchanged, (parameters, moments, moments))
    jax.block_until_ready((overwrite(unchanged(parameters)), overwrite(spare)))  # compiles both
    assert spare["moment"].is_deleted()

    checkpoints = opened()
    checkpoints.save(1, parameters, moments)
    for _ in range(20):
        parameters, moments = overwrite(parameters), overwrite(moments)
    jax.block_until_ready((parameters, moments))

    step, *restored = opened().restore(*abstract(({"kernel": draw()}, {"moment": draw()})))
    assert step == 1
    tiny.assert_same_bits(tuple(restored), ({"kernel": draw()}, {"moment": draw()}))


def test_a_checkpoint_is_on_the_disk_before_its_checksums(opened, monkeypatch):
    """And checksums before an older step is deleted: a power failure leaves one of them."""
    done = []
    note = lambda name, real: lambda place, *rest: (done.append((name, place)), real(place, *rest))
    for owner, name in ((paths, "sync"), (paths, "write_file"), (store, "delete")):
        monkeypatch.setattr(owner, name, note(name, getattr(owner, name)))
    checkpoints = opened(keep=1)
    for step in (1, 2, 3):
        checkpoints.save(step, *state(step))
    checkpoints.finish()
    [latest, averaged, _] = (checkpoints._workdir / place for place in store.PLACES)
    expected = []
    for step in (1, 2, 3):
        for folder in (latest, averaged):
            place = folder / str(step)
            expected.append(("delete", place))  # nothing: a step of that number
            expected += [("sync", place), ("write_file", place / checksums.NAME)]
            if folder == latest and step == 3:
                expected.append(("delete", latest / "1"))
            if folder == latest and step > 1:
                expected.append(("delete", averaged / str(step - 1)))
    assert done == expected


def test_other_shapes_are_one_line(three_steps):
    """A config.json that was lost, or is from elsewhere, does not match the checkpoint."""
    other = abstract(state(0)[0])
    kernel = other["layer_0"]["kernel"]
    other["layer_0"]["kernel"] = jax.ShapeDtypeStruct(
        (16, 4, 4), kernel.dtype, sharding=kernel.sharding
    )
    options = {"weights": "latest", "average_last": 1}
    said = r"\A.*layer_0/kernel has the shape \(16, 2, 8\), expected \(16, 4, 4\).*\Z"
    with pytest.raises(UserError, match=said):
        weights.load(three_steps, other, {"vocabulary": VOCABULARY}, **options)


@pytest.mark.parametrize(
    ("name", "refused"),
    [("run[1]", True), ("a\\b", True), ("a]b [c*d ü{x}", False)],
)
def test_paths_that_cannot_be_read_back_are_refused(tmp_path, name, refused):
    workdir = tmp_path / name
    if refused:
        with pytest.raises(UserError, match=r"\A.*without backslashes and brackets.*\Z"):
            checkpoints_of(workdir, keep=1)
        assert not workdir.exists()
        return
    checkpoints = checkpoints_of(workdir, keep=1)
    checkpoints.save(1, *state(1))
    checkpoints.close()
    tiny.assert_same_bits(load(workdir, "latest")[0], state(1)[0])


@pytest.mark.parametrize("about", [{}, {"identity": "x"}, {"identity": {}, "score": "high"}])
def test_a_record_of_another_form_is_one_line(copy, about):
    file = copy / "best" / "2" / checksums.NAME
    file.write_bytes(checksums.checksums_of(file.parent, about))
    with pytest.raises(UserError, match=rf"\Adamaged: {re.escape(str(file))} has no (\w+)\Z"):
        load(copy, "best")
