"""Two sentence pairs from text to new params: fills in the blocks of docs/one-batch.md.

python -m docs.one_batch
"""

import functools
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

import jax
import numpy as np
import optax
from ml_collections import ConfigDict

from configs import translation as defaults
from transformer.distributed.layout import make_layout
from transformer.distributed.parallel_step import compile_step
from transformer.modes import prepare
from transformer.tasks import splits, translation, vocabularies
from transformer.training import start, update

PAGE = Path(__file__).with_name("one-batch.md")
BLOCK = re.compile(r"(?:^    .*\n)+", re.MULTILINE)
PAIRS = (("Das Haus ist klein.", "The house is small."), ("Ich sehe ein Haus.", "I see a house."))
PIECE = "▁house"  # the piece whose embedding is shown


def configure(folder: Path) -> ConfigDict:
    """Writes PAIRS to text files; returns the paper's config for them, with everything small."""
    config = defaults.get_config()
    config.data.update(corpus="parallel_text", source_language="de", target_language="en")
    config.data.update(directory=str(folder), data_dir=str(folder), validation="train", test="")
    config.data.update(max_length=16, row_length=16, batch_tokens=16)
    config.vocabulary.size = 313
    config.model.update(d_model=8, d_ff=16, num_heads=2, num_layers=1, dropout_rate=0.0)
    config.optimizer.schedule.warmup_steps = 4
    for language, lines in zip(("de", "en"), zip(*PAIRS, strict=True), strict=True):
        (folder / f"train.{language}").write_text("".join(f"{line}\n" for line in lines))
    return config


def blocks(folder: Path) -> list[str]:
    """Returns the blocks of the page, from what the functions return that it names.

    The run is made in `folder`.
    """
    # Once: text to rows.
    run = folder / "run"
    config = prepare.prepare_workdir(translation, configure(folder), run)
    vocabulary = vocabularies.read(run, config)
    pairs = splits.pairs(config, "train").read()
    tokens = splits.prepared_tokens(config, vocabulary)
    task = translation.build(config, run)
    [rows] = task.batches.groups

    # For each batch: rows to new params. Adam's first moment is then 1 - b1 of the gradient.
    layout = make_layout(config.parallel.strategy, num_devices=1)
    batch, shape = start.load_batch(task.batches, layout, 1, 0)
    optimizer, train_step = update.make_step(config, task.loss)
    first = start.restore_or_init(task.init, optimizer, config.train.seed, None, layout)
    params = jax.tree.map(np.array, first.params)  # a copy: the compiled step donates its state
    new, metrics = compile_step(train_step, layout, first)(first, batch)
    metrics = {name: float(value) for name, value in metrics.items()}
    moments = optax.tree.get(new.opt_state, "mu")
    gradient = jax.tree.map(lambda m: m / (1 - config.optimizer.arguments.b1), moments)

    inputs = {name: array[0] for name, array in batch["inputs"].items()}  # of the only device
    apply = functools.partial(task.model.apply, {"params": params}, train=False)
    sources = [inputs[f"source{name}"] for name in ("", "_positions", "_segments")]
    memory = jax.eval_shape(functools.partial(apply, method="encode"), *sources)
    x = jax.eval_shape(functools.partial(apply, method="hidden"), **inputs)
    logits = jax.eval_shape(apply, **inputs)

    V, weight = len(vocabulary.target), metrics["weight"]
    pieces = vocabulary.target.pieces
    row = pieces(range(V)).index(PIECE)
    embedding = lambda tree: np.asarray(tree["target_embedding"]["embedding"])[row, :4]
    arrays = {**batch["inputs"], "targets": batch["targets"], "weights": batch["weights"]}
    return [
        block(
            f"{i}  {source:22}{target}"
            for i, (source, target) in enumerate(zip(*pairs, strict=True))
        ),
        block(
            f"{' '.join(pieces(ids)):32}{integers(ids)}"
            for side, texts in zip(vocabulary, pairs, strict=True)
            for ids in side.encode(texts)
        ),
        block(
            f"{f'{name}.{field}':17}{integers(array)}"
            for name, side in tokens.sides.items()
            for field, array in side._asdict().items()
        ),
        block([f"Rows(length={rows.length}, items={rows.items}, offsets={rows.offsets})"]),
        block(f"{name:17}{integers(array[0, 0])}" for name, array in arrays.items()),
        block([f"{shape} of a batch, {list(batch['targets'].shape)} of its arrays"]),
        block(
            [
                f"memory  {list(memory.shape)!s:14}B, S, D",
                f"x       {list(x.shape)!s:14}B, T, D",
                f"logits  {list(logits.shape)!s:14}B, T, V",
            ]
        ),
        block(
            f"{name:16}{metrics[name]:8.3f}{metrics[name] / weight:12.3f} a token"
            for name in ("nats_per_token", "loss", "accuracy", "weight")
        ),
        block(
            f"{name:14}{metrics[name]:.4g}"
            for name in ("gradient_norm", "learning_rate", "skipped")
        ),
        block(
            f"{name:10}" + "".join(f"{value:10.4f}" for value in embedding(tree))
            for name, tree in (
                ("params", params),
                ("gradient", gradient),
                ("new params", new.params),
            )
        ),
    ]


def block(lines: Iterable[str]) -> str:
    """Returns lines as a code block of Markdown."""
    return "".join(f"    {line}\n" for line in lines)


def integers(array: Iterable[int]) -> str:
    return "".join(f"{int(x):4}" for x in array)


def filled(page: str, folder: Path) -> str:
    """Returns the page with each of its blocks replaced."""
    made = iter(blocks(folder))
    page = BLOCK.sub(lambda _: next(made), page)
    assert not list(made), "the page has fewer blocks"
    return page


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        PAGE.write_text(filled(PAGE.read_text(), Path(name)))
