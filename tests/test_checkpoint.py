"""What is saved comes back bit for bit, also on other devices and after a cut-off save."""

import itertools
import json
import os
import pathlib
import shutil
import time

import jax
import numpy as np
import optax
import pytest
import tiny

from transformer import checkpoint, checksums, parallel, sealed, verify

VOCABULARY = "some pieces"
ADAM = optax.adam(0.1)


def state(seed, num_devices=1):
    """(parameters, optimizer state) of random numbers, with those that a cast would not survive."""
    random = np.random.default_rng(seed)
    draw = lambda *shape: random.standard_normal(shape, np.float32)
    parameters = {"embedding": {"embedding": draw(300, 16)}, "layer_0": {"kernel": draw(16, 2, 8)}}
    parameters["layer_0"]["bias"] = np.array([-0.0, 1e-45, np.inf, np.nan, 1 / 3], np.float32)
    whole = parallel.spread("jit", num_devices=num_devices).whole
    optimizer_state = jax.tree.map(
        lambda x: draw(*x.shape) if x.ndim else np.int32(seed + 1), ADAM.init(parameters)
    )
    return jax.device_put((parameters, optimizer_state), whole)


def abstract(tree, num_devices=1):
    whole = parallel.spread("jit", num_devices=num_devices).whole
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=whole), tree)


@pytest.fixture
def opened(tmp_path):
    """Opens the workdir's checkpoints as a new process would; closes them at the end."""
    managers = []

    def open_again(keep=3, every=1, vocabulary=VOCABULARY):
        if managers:
            managers.pop().close()
        options = {"keep": keep, "every": every, "vocabulary": vocabulary}
        managers.append(checkpoint.Checkpoints(tmp_path, **options))
        return managers[-1]

    yield open_again
    while managers:
        managers.pop().close()


def restore(checkpoints, num_devices=1):
    return checkpoints.restore(*abstract(state(0), num_devices))


def load(workdir, weights, average_last=3, every=1, vocabulary=VOCABULARY):
    options = {"weights": weights, "average_last": average_last, "every": every}
    return checkpoint.load(workdir, abstract(state(0)[0]), vocabulary, **options)


def steps(folder):
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())


def one_line(raised):
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_nothing_saved_is_none(opened):
    assert restore(opened()) is None


def test_round_trip_is_bit_equal(opened):
    opened().save(7, *state(1))
    step, *found = restore(opened())
    assert step == 7
    tiny.assert_same_bits(tuple(found), state(1))
    # The optimizer's own types come back too, or the next update could not be compiled.
    assert isinstance(found[1][0], optax.ScaleByAdamState)


@pytest.mark.parametrize("num_devices", [1, 8])
def test_arrays_may_be_donated_once_save_returns(opened, num_devices):
    """On a CPU a host copy may be the array itself, which the next step overwrites."""
    draw = lambda: np.random.default_rng(0).standard_normal((1500, 1000), np.float32)
    whole = parallel.spread("jit", num_devices=num_devices).whole
    parameters, moments = jax.device_put(({"kernel": draw()}, {"moment": draw()}), whole)

    @jax.jit
    def unchanged(tree):  # arrays that a compiled program made, as the train step's are
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

    likes = abstract(({"kernel": draw()}, {"moment": draw()}))
    step, *found = opened().restore(*likes)
    assert step == 1
    tiny.assert_same_bits(tuple(found), ({"kernel": draw()}, {"moment": draw()}))


def test_keeps_the_last_parameters_and_two_optimizer_states(opened, tmp_path):
    checkpoints = opened(keep=3)
    for step in (1, 2, 5, 6, 9):
        checkpoints.save(step, *state(step))
    checkpoints = opened(keep=3)
    assert steps(tmp_path / "checkpoints" / "parameters") == [5, 6, 9]
    assert steps(tmp_path / "checkpoints" / "optimizer") == [6, 9]
    assert checkpoint.OPTIMIZER_STATES == 2
    step, *found = restore(checkpoints)
    assert step == 9
    tiny.assert_same_bits(tuple(found), state(9))


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_keeps_as_many_as_it_is_told(opened, tmp_path, keep):
    checkpoints = opened(keep=keep)
    for step in (1, 2, 3, 4):
        checkpoints.save(step, *state(step))
    opened()
    # Of one, too, the one before stays: it outlives a newest that is cut off.
    assert steps(tmp_path / "checkpoints" / "parameters") == [1, 2, 3, 4][-max(keep, 2) :]


def test_stopped_runs_steps_do_not_count(opened, tmp_path):
    """Saved where a signal came (7, 11, 13), between the checkpoints that are kept and averaged."""
    checkpoints = opened(keep=3, every=5)
    for step in (5, 7, 10, 11, 13):
        checkpoints.save(step, *state(step))
    checkpoints = opened(keep=3, every=5)
    assert restore(checkpoints)[0] == 13
    assert load(tmp_path, "latest", every=5)[1] == [13]
    assert load(tmp_path, "average", every=5)[1] == [5, 10, 13]
    checkpoints.save(15, *state(15))
    checkpoints = opened(keep=3, every=5)
    assert load(tmp_path, "average", every=5)[1] == [5, 10, 15]  # as without the signals
    checkpoints.save(20, *state(20))
    opened()
    assert load(tmp_path, "average", every=5)[1] == [10, 15, 20]
    assert steps(tmp_path / "checkpoints" / "parameters") == [10, 15, 20]


def test_best_is_kept_apart_until_a_higher_bleu(opened, tmp_path):
    checkpoints = opened(keep=1)
    scores = {1: 3.0, 2: 5.0, 3: 5.0, 4: 4.9, 5: 5.1, 6: 0.0}
    kept = [checkpoints.save_best(t, state(t)[0], bleu) for t, bleu in scores.items()]
    assert kept == [True, True, False, False, True, False]
    for step in (5, 6, 7):
        checkpoints.save(step, *state(step))
    checkpoints = opened(keep=1)
    assert steps(tmp_path / "best") == [5]
    assert 5 not in steps(tmp_path / "checkpoints" / "parameters")
    assert not checkpoints.save_best(8, state(8)[0], 5.1)  # what it is compared with is on disk
    parameters, found = load(tmp_path, "best")
    assert found == [5]
    tiny.assert_same_bits(parameters, state(5)[0])


def test_resumed_run_may_find_its_best_at_an_earlier_step(opened, tmp_path):
    assert opened().save_best(9, state(9)[0], 1.0)
    assert opened().save_best(6, state(6)[0], 2.0)
    parameters, found = load(tmp_path, "best")
    assert found == [6]
    tiny.assert_same_bits(parameters, state(6)[0])


def test_of_two_bests_the_better_one_counts(opened, tmp_path):
    """A run that was killed before it deleted the old best; the better one may be the older one."""
    checkpoints = opened()
    delete = checkpoints._best.delete
    checkpoints._best.delete = lambda step: None
    assert checkpoints.save_best(9, state(9)[0], 1.0)
    assert checkpoints.save_best(6, state(6)[0], 2.0)
    checkpoints._best.delete = delete
    checkpoints = opened()
    assert steps(tmp_path / "best") == [6, 9]
    assert load(tmp_path, "best")[1] == [6]
    assert not checkpoints.save_best(10, state(10)[0], 1.5)
    assert checkpoints.save_best(11, state(11)[0], 2.5)
    assert steps(tmp_path / "best") == [11]


def test_weights_name_steps(opened, tmp_path):
    checkpoints = opened(keep=4)
    for step in (2, 4, 6, 8):
        checkpoints.save(step, *state(step))
    checkpoints.save_best(4, state(4)[0], 1.0)
    opened(keep=4)
    assert load(tmp_path, "latest")[1] == [8]
    tiny.assert_same_bits(load(tmp_path, "latest")[0], state(8)[0])
    assert load(tmp_path, "best")[1] == [4]
    assert load(tmp_path, "average", average_last=1)[1] == [8]
    tiny.assert_same_bits(load(tmp_path, "average", average_last=1)[0], state(8)[0])
    assert load(tmp_path, "average", average_last=3)[1] == [4, 6, 8]
    assert load(tmp_path, "average", average_last=20)[1] == [2, 4, 6, 8]


def test_average_is_the_float32_mean(opened, tmp_path):
    checkpoints = opened()
    for step in (1, 2, 3):
        checkpoints.save(step, *state(step))
    opened()
    found, _ = load(tmp_path, "average")
    trees = [state(step)[0] for step in (1, 2, 3)]
    mean = lambda *x: np.sum(np.asarray(x, np.float64), axis=0) / 3
    expected = jax.tree.map(mean, *trees)
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert x.dtype == np.float32
        np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("weights", ["latest", "best", "average"])
def test_other_vocabulary_is_refused_by_name(opened, tmp_path, weights):
    checkpoints = opened()
    checkpoints.save(1, *state(1))
    checkpoints.save(2, *state(2))
    checkpoints.save_best(1, state(1)[0], 1.0)
    opened()
    with pytest.raises(ValueError, match=r"the vocabulary some pieces.*this run's is others") as e:
        load(tmp_path, weights, vocabulary="others")
    one_line(e)
    with pytest.raises(ValueError, match=r"the vocabulary some pieces.*this run's is others") as e:
        restore(opened(vocabulary="others"))
    one_line(e)


def test_mistakes_about_weights(opened, tmp_path):
    with pytest.raises(ValueError, match=r"one of .*'latest'.*, found 'newest'") as raised:
        load(tmp_path, "newest")
    one_line(raised)
    with pytest.raises(ValueError, match=r"nothing has been saved in .* yet") as raised:
        load(tmp_path, "latest")
    one_line(raised)
    opened()
    with pytest.raises(ValueError, match="holds no checkpoint") as raised:
        load(tmp_path, "best")
    one_line(raised)


# Cut-off saves


@pytest.mark.parametrize("lost", ["parameters", "optimizer"])
def test_half_a_save_is_dropped_and_can_be_saved_again(opened, tmp_path, lost):
    checkpoints = opened()
    for step in (1, 2, 3):
        checkpoints.save(step, *state(step))
    opened()
    shutil.rmtree(tmp_path / "checkpoints" / lost / "3")
    checkpoints = opened()
    step, *found = restore(checkpoints)
    assert step == 2
    tiny.assert_same_bits(tuple(found), state(2))
    assert 3 not in steps(tmp_path / "checkpoints" / "parameters")
    assert 3 not in steps(tmp_path / "checkpoints" / "optimizer")
    checkpoints.save(3, *state(33))
    step, *found = restore(opened())
    assert step == 3
    tiny.assert_same_bits(tuple(found), state(33))


def test_nothing_whole_is_none(opened, tmp_path):
    opened().save(1, *state(1))
    opened()
    shutil.rmtree(tmp_path / "checkpoints" / "optimizer" / "1")
    checkpoints = opened()
    assert restore(checkpoints) is None
    checkpoints.save(1, *state(11))  # the run begins anew, and comes by the same step
    step, *found = restore(opened())
    assert step == 1
    tiny.assert_same_bits(tuple(found), state(11))


def test_without_optimizer_states_nothing_is_resumed(opened, tmp_path):
    """As in a copy made to translate with; its checkpoints are not thrown away."""
    checkpoints = opened()
    for step in (1, 2):
        checkpoints.save(step, *state(step))
    opened()
    shutil.rmtree(tmp_path / "checkpoints" / "optimizer")
    with pytest.raises(ValueError, match=r"not resumed; give another --workdir") as raised:
        restore(opened())
    one_line(raised)
    assert steps(tmp_path / "checkpoints" / "parameters") == [1, 2]


def test_best_of_steps_that_come_again_is_deleted(opened, tmp_path):
    """Killed after a validation, before the checkpoint: what is resumed may go another way."""
    checkpoints = opened()
    checkpoints.save(2, *state(2))
    checkpoints.save_best(3, state(3)[0], 5.0)
    checkpoints = opened()
    assert restore(checkpoints)[0] == 2
    assert steps(tmp_path / "best") == []
    assert checkpoints.save_best(3, state(33)[0], 4.0)


# Damage


def truncate(path):
    os.truncate(path, path.stat().st_size // 2)


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 16
    path.write_bytes(content)


def zero_a_block(path):
    content = bytearray(path.read_bytes())
    start = len(content) // 4
    block = max(1, min(512, len(content) // 2))
    content[start : start + block] = bytes(block)
    path.write_bytes(content)


DAMAGES = [truncate, pathlib.Path.unlink, flip_a_bit, zero_a_block]


@pytest.fixture(scope="module")
def three_steps(tmp_path_factory):
    """A workdir with the steps 1, 2, 3, and 2 as the best."""
    workdir = tmp_path_factory.mktemp("runs") / "three"
    checkpoints = checkpoint.Checkpoints(workdir, keep=3, every=1, vocabulary=VOCABULARY)
    for step in (1, 2, 3):
        checkpoints.save(step, *state(step))
    checkpoints.save_best(2, state(2)[0], 5.0)
    assert checkpoints.close()
    return workdir


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # reads given up
@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "not sealed"])
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_no_damaged_file_changes_weights_in_silence(three_steps, tmp_path, damage, sealed, caplog):
    """Of every file of the newest step: it is restored to the bit, or the one before it is.

    Also of one without checksums of its files: it has its arrays'.
    """
    folders = [three_steps / "checkpoints" / part / "3" for part in ("parameters", "optimizer")]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 10
    seals = [folder / "checksums.json" for folder in folders]
    passed_over = []
    for file in files if sealed else set(files) - set(seals):
        copy = tmp_path / "copy"
        shutil.copytree(three_steps, copy)
        for seal in () if sealed else seals:
            (copy / seal.relative_to(three_steps)).unlink()
        damage(copy / file.relative_to(three_steps))
        caplog.clear()
        checkpoints = checkpoint.Checkpoints(copy, keep=3, every=1, vocabulary=VOCABULARY)
        step, *found = restore(checkpoints)
        checkpoints.close()
        tiny.assert_same_bits(tuple(found), state(step))
        if step != 3:
            assert step == 2
            named = file if sealed else next(folder for folder in folders if folder in file.parents)
            assert f"damaged: {copy / named.relative_to(three_steps)}" in caplog.text
            passed_over.append(file)
        shutil.rmtree(copy)
    if sealed:
        lost_seal = damage is pathlib.Path.unlink
        assert set(passed_over) == set(files) - set(seals if lost_seal else ())
    else:  # not all files are read
        assert 4 <= len(passed_over) < len(files)


@pytest.mark.parametrize("weights", ["latest", "average", "best"])
def test_other_arrays_than_were_saved_are_not_scored(three_steps, tmp_path, weights, monkeypatch):
    """Whatever changed them: here it is what reads them, and every file is whole."""
    restore = sealed.ocp.CheckpointManager.restore

    def wrong(self, step, **options):
        found = restore(self, step, **options)
        if isinstance(found.get("arrays"), dict):  # parameters
            kernel = found["arrays"]["layer_0"]["kernel"]
            found["arrays"]["layer_0"]["kernel"] = kernel.at[3, 1, 2].add(1e-7)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(sealed.ocp.CheckpointManager, "restore", wrong)
        with pytest.raises(ValueError, match=r"other numbers in layer_0/kernel\)") as raised:
            load(three_steps, weights)
        one_line(raised)
        with pytest.raises(SystemExit):
            verify.verify(None, three_steps)
    load(three_steps, weights)
    verify.verify(None, three_steps)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_arrays_have_the_same_checksums_however_they_are_split(dtype):
    draw = np.random.default_rng(0).standard_normal((16, 8, 24)) * 100
    whole = {"x": jax.numpy.asarray(draw, dtype), "y": [jax.numpy.asarray(3, dtype)]}
    expected = checksums.of_arrays(whole)
    assert list(expected) == ["x", "y/0"]
    mesh = parallel.spread("jit", (2, 2, 2)).mesh
    for spec in itertools.permutations([*mesh.axis_names]):
        split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))
        spread = {"x": jax.device_put(whole["x"], split), "y": whole["y"]}
        assert checksums.of_arrays(spread) == expected


def test_every_change_of_an_array_changes_its_checksum():
    random = np.random.default_rng(0)
    x = random.standard_normal((6, 50), np.float32)
    numbers = {checksums.of_arrays([x])["0"]}
    for bit in range(32):
        other = x.copy()
        other.view(np.uint32)[bit % 6, bit] ^= 1 << bit
        numbers.add(checksums.of_arrays([other])["0"])
    zeroed, swapped, rounded = x.copy(), x.copy(), x.copy()
    zeroed[2:4] = 0
    swapped[[1, 2]] = x[[2, 1]]
    rounded[:] = x.astype(np.float16)
    others = [zeroed, swapped, rounded, np.zeros_like(x), -np.zeros_like(x), x.T.copy(), x[:, ::-1]]
    numbers |= {checksums.of_arrays([other])["0"] for other in others}
    assert len(numbers) == 1 + 32 + len(others)


def test_without_a_whole_checkpoint_nothing_is_deleted(three_steps, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(three_steps, copy)
    for step in (2, 3):  # those that have an optimizer state
        flip_a_bit(next((copy / "checkpoints" / "optimizer" / str(step)).rglob("d/*")))
    before = sorted(copy.rglob("*"))
    checkpoints = checkpoint.Checkpoints(copy, keep=3, every=1, vocabulary=VOCABULARY)
    with pytest.raises(ValueError, match=r"none of the checkpoints in .* is whole") as raised:
        restore(checkpoints)
    checkpoints.close()
    one_line(raised)
    assert sorted(copy.rglob("*")) == before


@pytest.mark.parametrize(
    ("weights", "file"),
    [
        ("latest", "checkpoints/parameters/3"),
        ("average", "checkpoints/parameters/1"),
        ("best", "best/2"),
    ],
)
@pytest.mark.parametrize("name", ["d/*", "about/metadata"])
def test_damaged_parameters_are_not_scored(three_steps, tmp_path, weights, file, name):
    copy = tmp_path / "copy"
    shutil.copytree(three_steps, copy)
    damaged = next((copy / file).rglob(name))
    flip_a_bit(damaged)
    with pytest.raises(ValueError, match="other bytes than were written") as raised:
        load(copy, weights, average_last=3)
    one_line(raised)
    assert str(damaged) in str(raised.value)


def test_a_damaged_best_is_replaced(three_steps, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(three_steps, copy)
    flip_a_bit(next((copy / "best" / "2").rglob("d/*")))
    checkpoints = checkpoint.Checkpoints(copy, keep=3, every=1, vocabulary=VOCABULARY)
    assert checkpoints.save_best(2, state(5)[0], 1.0)
    checkpoints.close()
    tiny.assert_same_bits(load(copy, "best")[0], state(5)[0])


def test_verify_names_what_is_damaged(three_steps, tmp_path, capsys):
    copy = tmp_path / "copy"
    shutil.copytree(three_steps, copy)
    verify.verify(None, copy)
    whole = json.loads(capsys.readouterr().out)
    steps = [f"checkpoints/{part}/{i}" for part in ("parameters", "optimizer") for i in (1, 2, 3)]
    kept = [*steps[:3], *steps[4:], "best/2"]  # the optimizer's of two steps
    assert whole == {name: [] for name in kept}
    damaged = next((copy / "checkpoints" / "parameters" / "2").rglob("d/*"))
    flip_a_bit(damaged)
    with pytest.raises(SystemExit) as status:
        verify.verify(None, copy)
    assert status.value.code == 1
    found = json.loads(capsys.readouterr().out)
    fault = f"{damaged} (other bytes than were written)"
    assert found == {**whole, "checkpoints/parameters/2": [fault]}
    with pytest.raises(ValueError, match="holds no checkpoint"):
        verify.verify(None, tmp_path)


@pytest.mark.parametrize("damage", [truncate, pathlib.Path.unlink])
@pytest.mark.parametrize("name", ["_METADATA", "manifest.ocdbt"])
def test_verify_names_what_is_damaged_without_checksums_of_files(
    three_steps, tmp_path, capsys, name, damage
):
    copy = tmp_path / "copy"
    shutil.copytree(three_steps, copy)
    place = "checkpoints/optimizer/3"
    (copy / place / "checksums.json").unlink()
    damage(copy / place / "arrays" / name)
    with pytest.raises(SystemExit):
        verify.verify(None, copy)
    found = json.loads(capsys.readouterr().out)
    assert [name for name, faults in found.items() if faults] == [place]
    assert str(copy / place) in found[place][0]


def test_what_is_no_damage_is_not_taken_for_it(three_steps, tmp_path, monkeypatch):
    copy = tmp_path / "copy"
    shutil.copytree(three_steps, copy)
    (copy / "checkpoints" / "optimizer" / "3" / "checksums.json").unlink()
    checkpoints = checkpoint.Checkpoints(copy, keep=3, every=1, vocabulary=VOCABULARY)
    before = sorted(copy.rglob("*"))

    def exhausted(*_, **__):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED")

    with monkeypatch.context() as patch:
        patch.setattr(sealed.ocp.CheckpointManager, "restore", exhausted)
        with pytest.raises(jax.errors.JaxRuntimeError):
            restore(checkpoints)
    assert sorted(copy.rglob("*")) == before
    assert restore(checkpoints)[0] == 3
    checkpoints.close()


# Full disks


@pytest.mark.parametrize("when", ["before", "while"])
def test_a_full_disk_keeps_what_was_saved_and_says_so(
    opened, tmp_path, when, no_file_over, monkeypatch, caplog
):
    checkpoints = opened()
    assert checkpoints.save(1, *state(1))
    assert checkpoints.save_best(1, state(1)[0], 1.0)
    assert checkpoints.finish()
    if when == "before":
        with monkeypatch.context() as patch:
            patch.setattr(checkpoint.storage, "free_bytes", lambda path: 1000)
            assert not checkpoints.save(2, *state(2))
    else:
        with no_file_over(4096):
            assert checkpoints.save(2, *state(2))  # begun
            assert not checkpoints.finish()
            assert not checkpoints.save_best(2, state(2)[0], 2.0)
        assert "the best of step 2 was not saved" in caplog.text
    assert "step 2 " in caplog.text
    assert str(tmp_path) in caplog.text
    assert "MB left" in caplog.text
    assert checkpoints.newest() == 1
    drafts = shutil.ignore_patterns("*tmp*")  # which are being removed
    copy = shutil.copytree(tmp_path, tmp_path.parent / f"{tmp_path.name}-copy", ignore=drafts)
    other = checkpoint.Checkpoints(copy, keep=3, every=1, vocabulary=VOCABULARY)
    step, *found = restore(other)
    assert step == 1
    tiny.assert_same_bits(tuple(found), state(1))
    assert load(copy, "best")[1] == [1]
    assert checkpoints.save(3, *state(3))  # there is room again
    assert checkpoints.save_best(3, state(3)[0], 2.0)
    assert checkpoints.finish()
    step, *found = restore(opened())
    assert step == 3
    tiny.assert_same_bits(tuple(found), state(3))
    assert load(tmp_path, "best")[1] == [3]


# Slow disks


def test_a_slow_save_is_waited_for(opened, monkeypatch):
    """By the next one: none pile up, and none is left out."""
    checkpoints, sealed = opened(keep=4), []
    seal = checkpoint.Sealed.seal

    def slow(self, step):
        time.sleep(0.2)
        seal(self, step)
        sealed.append(step)

    monkeypatch.setattr(checkpoint.Sealed, "seal", slow)
    for step in (1, 2, 3, 4):
        assert checkpoints.save(step, *state(step))
        assert sorted(sealed) == sorted([*range(1, step)] * 2)  # of the halves before this one
    assert checkpoints.finish()
    assert sorted(sealed) == [1, 1, 2, 2, 3, 3, 4, 4]
    assert restore(opened(keep=4))[0] == 4


# Retention


@pytest.mark.slow
def test_the_newest_and_the_best_are_kept_whatever_the_scores(tmp_path):
    """Of 200 random sequences of scores, NaNs among them."""
    choose = np.random.default_rng(0)
    small = lambda t: {"x": jax.numpy.full(3, t, np.float32)}
    for sequence in range(200):
        workdir = tmp_path / str(sequence)
        keep = int(choose.integers(1, 4))
        checkpoints = checkpoint.Checkpoints(workdir, keep=keep, every=1, vocabulary=VOCABULARY)
        scores = choose.integers(0, 4, choose.integers(1, 4)).astype(float)
        scores[choose.random(len(scores)) < 0.3] = np.nan
        best = None
        for step, score in enumerate(scores, start=1):
            checkpoints.save(step, small(step), {"m": small(step)["x"]})
            better = not np.isnan(score) and (best is None or score > scores[best - 1])
            assert checkpoints.save_best(step, small(step), score) == better
            best = step if better else best
        assert checkpoints.close()
        last = len(scores)
        assert steps(workdir / "checkpoints" / "parameters") == list(
            range(max(1, last - max(2, keep) + 1), last + 1)  # the last but one until it is whole
        )
        assert last in steps(workdir / "checkpoints" / "optimizer")
        assert steps(workdir / "best") == ([best] if best else [])


# Devices


@pytest.mark.parametrize(("before", "after"), [(1, 8), (8, 2), (2, 1)])
def test_restores_onto_another_number_of_devices(opened, before, after):
    opened().save(1, *state(1, before))
    _, *found = restore(opened(), after)
    tiny.assert_same_bits(tuple(found), state(1))
    expected = parallel.spread("jit", num_devices=after).whole
    for leaf in jax.tree.leaves(found):
        assert leaf.sharding == expected
        assert len(leaf.addressable_shards) == after
        for shard in leaf.addressable_shards:
            assert shard.data.shape == leaf.shape


def test_loaded_parameters_go_where_they_are_wanted(opened, tmp_path):
    checkpoints = opened()
    for step in (1, 2):
        checkpoints.save(step, *state(step, 8))
    opened()
    for weights in ("latest", "average"):
        for leaf in jax.tree.leaves(load(tmp_path, weights)[0]):
            assert isinstance(leaf, jax.Array)
            assert leaf.sharding == parallel.spread("jit", num_devices=1).whole
