"""Each task of the registry is held to what transformer/tasks/__init__.py says of a task."""

import json
import math
import pathlib
from types import ModuleType
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conformance import tables, tiny_tasks
from conformance.tiny_tasks import TINY
from helpers import layouts, tiny
from helpers.cases import slow_but

from transformer import registry
from transformer.distributed import parallel_step
from transformer.errors import UserError
from transformer.modes import prepare, train
from transformer.tasks import saved_model
from transformer.tasks.evaluation import Evaluation
from transformer.tasks.task import Task, load_task
from transformer.training import start, update
from transformer.workdir import saved_config
from transformer.workdir.log import read

NAMES = ("FREE", "SCORE", "check", "prepare", "identity", "sizes", "model", "example", "loss")
NAMES += ("evaluator", "build")


class Run(NamedTuple):
    """A tiny run of a task, prepared or trained."""

    name: str
    module: ModuleType
    given: object  # the config that it began with
    config: object  # as `prepare` filled it in
    workdir: object
    task: Task
    params: dict


CASES = tables.cases("TASK", TINY)
TRAINED = pytest.mark.parametrize("run", slow_but(CASES, "translation"), indirect=True)


@pytest.fixture(scope="module", params=CASES)
def run(request, tmp_path_factory):
    """A run before its first step, with random params."""
    name = request.param
    module, folder = load_task(name), tmp_path_factory.mktemp(name)
    if not all(hasattr(module, x) for x in NAMES):
        pytest.skip("a name is missing: the test of names says which, once and not in each test")
    given = tiny_tasks.config(name, folder)
    task = prepare.prepare(given, folder / "run")
    config = saved_config.read_config(folder / "run")
    params = tiny.parameters(task.model, task.batches[0]["inputs"])
    params = jax.device_put(params, layouts.layout_of("jit", 8).replicated)
    return Run(name, module, given, config, folder / "run", task, params)


@pytest.fixture(scope="module")
def finished(run):
    """The same run after its steps, with the params of its newest checkpoint."""
    train.train(run.config.copy_and_resolve_references(), run.workdir)
    return run._replace(params=saved_model.load(run.config, run.workdir).params)


def longest(run):
    """Returns the number of a batch of the longest rows."""
    return run.task.batches.first_of_each_length()[0]


def test_every_task_has_a_tiny_one():
    tables.check_names("TASK", TINY, "NAME: a function (folder) -> config, which writes a corpus")


@pytest.mark.parametrize("name", CASES)
def test_a_module_has_what_every_task_has(name):
    missing = [x for x in NAMES if not hasattr(load_task(name), x)]
    assert not missing, f"{name}: the module has no {', '.join(missing)}"


def test_prepare_fills_in_the_fingerprints(run):
    identity = run.module.identity(run.config)
    assert identity == run.task.identity, f"{run.name}: identity(config) is not that of the Task"
    assert all(identity.values()), f"{run.name}: {identity} after prepare has an empty fingerprint"
    assert run.task.best_is in ("highest", "lowest"), f"{run.name}: best_is={run.task.best_is!r}"


def test_an_example_has_the_shapes_and_dtypes_of_a_batch(run):
    shapes = lambda batch: jax.tree.map(lambda x: (x.shape, np.dtype(x.dtype).name), batch)
    example = shapes(run.module.example(run.config, 0))
    expected = shapes(run.task.batches[longest(run)])
    assert example == expected, (
        f"{run.name}: example(config, 0) is {example}, a batch is {expected}"
    )


def test_rows_one_by_one_are_those_of_the_whole_batch(run):
    """Also in another epoch: what is random about an item comes from (seed, t, item)."""
    batches = run.task.batches
    for t in (longest(run), len(batches), len(batches) + 1):
        whole, (rows, _) = batches[t], batches.shape(t)
        parts = [batches.rows(t, i, i + 1) for i in range(rows)]
        together = jax.tree.map(lambda *x: np.concatenate(x), *parts)
        same = jax.tree.map(np.array_equal, together, whole)
        assert all(jax.tree.leaves(same)), (
            f"{run.name}: rows(t, i, i + 1) for each i are not rows(t, 0, n), t={t}: {same}"
        )


@pytest.mark.slow
def test_several_devices_take_the_steps_of_one(run):
    """Of SGD: Adam would divide a gradient that is zero but for rounding by its own size."""
    config = run.config.copy_and_resolve_references()
    config.optimizer = {"name": "sgd", "arguments": {}, "clip_norm": 1.0, "frozen": ""}
    config.optimizer.schedule = {"name": "constant_schedule", "value": 0.5}

    def steps(*where):
        """(params, sums) after three steps, from the params of `task.init`."""
        layout = layouts.layout_of(*where)
        optimizer, train_step = update.make_step(config, run.task.loss)
        state = start.restore_or_init(run.task.init, optimizer, 0, None, layout)
        compiled = parallel_step.compile_step(train_step, layout, state)
        for t in range(3):
            state, sums = compiled(state, start.load_batch(run.task.batches, layout, 1, t)[0])
        return state.params, sums

    one = steps("jit", 1, (1, 1, 1))
    for strategy, mesh in (("pmap", (4, 1, 1)), ("jit", (2, 2, 2))):
        several = steps(strategy, math.prod(mesh), mesh)
        close = lambda x, y: np.allclose(x, y, rtol=1e-4, atol=1e-6)
        for what, found, expected in zip(("params", "sums"), several, one, strict=True):
            same = jax.tree.map(close, found, expected)
            assert all(jax.tree.leaves(same)), (
                f"{run.name}: {mesh} devices ({strategy}) have other {what} than one: {same}"
            )


def test_an_evaluator_is_an_evaluation(run):
    evaluation = run.module.evaluator(run.config, run.workdir, run.task.model, "validation")
    assert isinstance(evaluation, Evaluation), f"{run.name}: evaluator(...) must be an Evaluation"
    evaluation.rehearse(run.params)
    scores, outputs = evaluation.score(run.params)
    assert run.task.best_by in scores, f"{run.name}: best_by={run.task.best_by!r} is no score"
    table = evaluation.rows(scores)
    texts = [type(x) is str for x in (*table, *table.values())]
    assert all(texts), f"{run.name}: rows(scores) must be {{name: text}}, found {table}"
    lengths = {name: len(lines) for name, lines in evaluation.dataset.items()}
    assert len(set(lengths.values())) <= 1, f"{run.name}: dataset has {lengths} lines"
    lacking = {*evaluation.dataset, *evaluation.columns.values()} - outputs.keys()
    assert not lacking, f"{run.name}: outputs lack {lacking} of dataset and columns"
    json.dumps([evaluation.split, evaluation.files, evaluation.settings, scores])


def test_rows_that_devices_add_are_not_scored(run, monkeypatch):
    """A batch gets rows of weight 0, so that each device has as many."""
    evaluation = run.module.evaluator(run.config, run.workdir, run.task.model, "validation")
    scores, outputs = evaluation.score(run.params)
    more = parallel_step.rows_for_devices
    monkeypatch.setattr(parallel_step, "rows_for_devices", lambda *x: 3 * more(*x))
    padded_scores, padded_outputs = evaluation.score(run.params)
    numbers = [name for name, x in scores.items() if not isinstance(x, str)]
    differing = [x for x in numbers if not np.allclose(scores[x], padded_scores[x], rtol=1e-4)]
    assert not differing, f"{run.name}: {differing} of an evaluation count rows of weight 0"
    assert outputs.keys() == padded_outputs.keys()
    same = {name: lines == padded_outputs[name] for name, lines in outputs.items()}
    if measure := evaluation.columns.get("measure"):  # numbers, which are rounded
        values = [np.array(x[measure], float) for x in (outputs, padded_outputs)]
        same[measure] = np.allclose(*values, rtol=1e-4, atol=2e-4)
    differing = [name for name in same if not same[name]]
    assert not differing, f"{run.name}: the outputs {differing} change with rows of weight 0"


def test_outputs_are_in_the_order_of_the_items(run, tmp_path):
    """The first line of each file of a split becomes the last; so do the outputs for it."""

    def outputs_of(config):
        evaluation = run.module.evaluator(config, run.workdir, run.task.model, "validation")
        outputs = evaluation.score(run.params)[1]
        changed = [name for name, lines in evaluation.dataset.items() if outputs[name] != lines]
        assert not changed, f"{run.name}: the outputs {changed} are not those of the dataset"
        return evaluation, outputs

    evaluation, outputs = outputs_of(run.config)
    lengths = {name: len(outputs[name]) for name in evaluation.columns.values()}
    assert len(set(lengths.values())) <= 1, f"{run.name}: outputs have {lengths} lines"
    files = [pathlib.Path(file) for file in evaluation.files]
    are_text = files and all(b"\0" not in file.read_bytes() for file in files)
    if "output" not in evaluation.columns or not are_text:
        # It predicts no item by itself, as a language model, or its order is not that of lines.
        return
    for file in files:
        first, *others = file.read_bytes().splitlines(keepends=True)
        (tmp_path / file.name).write_bytes(b"".join([*others, first]))
    config = run.config.copy_and_resolve_references()
    config.data.directory = str(tmp_path)
    _, rotated = outputs_of(config)
    name = evaluation.columns["output"]
    assert len(set(outputs[name])) > 1, f"{run.name}: all outputs are equal, in any order"
    assert rotated[name] == [*outputs[name][1:], outputs[name][0]], (
        f"{run.name}: the outputs {name!r} are not in the order of the split's lines"
    )


def test_what_a_model_sows_is_in_the_loss(run):
    """A value for each row. Those without weight, here the last two, count in nothing."""
    t = longest(run)
    rows = run.task.batches.shape(t)[0] + 2
    batch, full = (run.task.batches.rows(t, 0, n) for n in (rows, rows - 2))
    loss = lambda batch: run.task.loss(run.params, batch, rng=jax.random.key(0))
    compiled = lambda x: tiny.jit(lambda: loss(x))()  # another function each time, traced anew
    top = "hidden" if hasattr(run.task.model, "hidden") else "__call__"

    def sow(call, arguments, options, context):
        if context.method_name == top and context.module.path == ():
            context.module.sow("losses", "penalty", jnp.arange(1.0, rows + 1))
        return call(*arguments, **options)

    before, without = compiled(batch), compiled(full)
    same = {name: np.allclose(before[name], without[name]) for name in ("loss", "weight")}
    assert all(same.values()), (
        f"{run.name}: rows without weight change loss or weight: {before} with, {without} without"
    )
    with nn.intercept_methods(sow):
        after = compiled(batch)
    real = batch["weights"].reshape(rows, -1).any(axis=1)
    expected, added = (real * np.arange(1, rows + 1)).sum(), after["loss"] - before["loss"]
    assert np.allclose(added, expected, rtol=1e-3), (
        f"{run.name}: a model that sows {expected} into 'losses' adds {added} to the loss"
    )
    assert "penalty" in after, f"{run.name}: what is sown as 'penalty' is not logged by this name"


@TRAINED
def test_a_checkpoint_restores_to_the_same_evaluation(finished):
    run, logged = finished, [x for x in read(finished.workdir) if x["kind"] == "validation"]
    differing = [name for name, x in run.task.evaluate(run.params).items() if x != logged[-1][name]]
    assert not differing, f"{run.name}: {differing} of a restored checkpoint are not those logged"


@TRAINED
def test_a_run_is_resumed_with_the_config_that_it_began_with(finished):
    try:
        identity = prepare.prepare(finished.given, finished.workdir).identity
    except UserError as error:
        pytest.fail(f"resuming is refused (a key that prepare fills in must be in FREE): {error}")
    assert identity == finished.task.identity, f"{finished.name}: resumed, it is {identity}"


@pytest.mark.slow
@pytest.mark.skipif("report" not in registry.MODES, reason="there is no --mode=report")
def test_a_report_has_its_page(finished, capsys):
    run = finished
    registry.load(registry.MODES["report"].code)(run.config, run.workdir)
    page = run.workdir / "report.html"
    assert capsys.readouterr().out == f"{page}\n", f"{run.name}: the report's path is not said"
    assert "</html>" in page.read_text(), f"{run.name}: {page.name} is no page"
