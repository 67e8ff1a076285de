"""Text -> text: a trained workdir as a translator."""

import functools
import itertools
import json
import logging
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from transformer import checkpoint, decode, metrics, models, parallel, tokenizer

Tree = dict


class Translator:
    """Translates lines of text with a model and its parameters.

    Lines are taken `chunk_lines` at a time, so that memory does not grow with the input; in a
    chunk, they are sorted by length into batches of few static shapes, each compiled once.
    """

    def __init__(
        self,
        model: nn.Module,
        vocabulary: tokenizer.Vocabulary,
        *,
        beam_width: int,
        length_penalty: float,
        extra_length: int,
        max_length: int,
        batch_tokens: int,
        chunk_lines: int,
    ):
        """Over `max_length` source ids, a line is translated in parts.

        An output has at most as many ids as its source and `extra_length` more. A batch has at
        most `batch_tokens` target positions.
        """
        for key, found, least in (
            ("beam_width", beam_width, 1),
            ("length_penalty", length_penalty, 0),
            ("extra_length", extra_length, 1),
            ("max_length", max_length, 16),
            ("batch_tokens", batch_tokens, 1),
            ("chunk_lines", chunk_lines, 1),
        ):
            if found < least:
                raise ValueError(f"config.decode.{key} is at least {least}, found {found}")
        self.model = model
        self.vocabulary = vocabulary
        self._extra_length = extra_length
        self._max_length = max_length
        self._batch_tokens = batch_tokens
        self._chunk_lines = chunk_lines
        self._search = functools.partial(
            _search,
            model=model,
            beam_width=beam_width,
            length_penalty=length_penalty,
            extra_length=extra_length,
        )
        self.num_split = 0  # lines over max_length so far

    def translate(self, parameters: Tree, lines: Iterable[str]) -> Iterator[str]:
        """A translation for every line, in order; a blank line's is empty."""
        lines = iter(lines)
        while chunk := list(itertools.islice(lines, self._chunk_lines)):
            yield from self._translate_chunk(parameters, chunk)

    def _translate_chunk(self, parameters: Tree, lines: list[str]) -> list[str]:
        parts, line_of_part = [], []
        for number, ids in enumerate(tokenizer.encode(self.vocabulary.source, lines)):
            if len(ids) > 1:  # a blank line is its end symbol alone
                for part in self._split(ids):
                    parts.append(part)
                    line_of_part.append(number)
        found = [""] * len(lines)
        for number, text in zip(
            line_of_part, self._translate_parts(parameters, parts), strict=True
        ):
            found[number] = f"{found[number]} {text}" if found[number] else text
        return found

    def _split(self, ids: list[int]) -> list[list[int]]:
        """An over-long sentence in parts of at most max_length ids, cut before words."""
        if len(ids) <= self._max_length:
            return [ids]
        self.num_split += 1
        parts, rest, room = [], ids[:-1], self._max_length - 1
        while len(rest) > room:
            words = (
                i
                for i in range(room, room // 2, -1)
                if self.vocabulary.source.id_to_piece(rest[i]).startswith("▁")
            )
            cut = next(words, room)
            parts.append([*rest[:cut], tokenizer.END])
            rest = rest[cut:]
        parts.append([*rest, tokenizer.END])
        logging.warning(
            "a line of %d pieces is over config.decode.max_length=%d: translated in %d parts",
            *(len(ids), self._max_length, len(parts)),
        )
        return parts

    def _translate_parts(self, parameters: Tree, parts: list[list[int]]) -> list[str]:
        found: list[list[int]] = [[]] * len(parts)
        order = sorted(range(len(parts)), key=lambda i: -len(parts[i]))
        while order:
            length = _round_up(len(parts[order[0]]), self._max_length)
            full = max(1, self._batch_tokens // (length + self._extra_length))
            rows = min(full, _round_up(len(order), full, factor=4, least=1))
            batch, order = order[:rows], order[rows:]
            source_BS = np.full((rows, length), tokenizer.PAD, np.int32)
            for row, i in enumerate(batch):
                source_BS[row, : len(parts[i])] = parts[i]
            best_BT = np.asarray(self._search(parameters, source_BS))
            for row, i in enumerate(batch):
                ids = best_BT[row].tolist()
                if tokenizer.END not in ids:
                    raise FloatingPointError("the model's scores are no numbers: bad parameters")
                found[i] = ids[: ids.index(tokenizer.END)]
        # A byte piece may spell a line break, but a line in is a line out.
        texts = tokenizer.decode(self.vocabulary.target, found)
        return [text.replace("\n", " ").replace("\r", " ") for text in texts]


# Compiled once for each shape and these values, however many translators ask for it.
@functools.partial(
    jax.jit, static_argnames=("model", "beam_width", "length_penalty", "extra_length")
)
def _search(
    parameters: Tree,
    source_BS: jax.Array,
    *,
    model: nn.Module,
    beam_width: int,
    length_penalty: float,
    extra_length: int,
) -> jax.Array:
    """The best translation of each row's ids, tokens_BT."""
    apply = functools.partial(model.apply, {"params": parameters})
    real_BS = source_BS != tokenizer.PAD
    positions_BS = jnp.broadcast_to(jnp.arange(source_BS.shape[1]), source_BS.shape)
    memory = apply(source_BS, positions_BS, real_BS.astype(jnp.int32), train=False, method="encode")
    length = source_BS.shape[1] + extra_length
    memory, cache = apply(memory, real_BS, length, method="prepare")
    # The source's end symbol does not count, the target's does not either (paper 6.1: input + 50).
    # Rows that only fill the batch end at once.
    limits_B = real_BS.sum(axis=1) - 1 + extra_length
    limits_B = jnp.where(real_BS.any(axis=1), limits_B, 0)
    tokens_BWT, _ = decode.beam_search(
        functools.partial(apply, method="step"),
        memory,
        cache,
        limits_B,
        length,
        beam_width=beam_width,
        alpha=length_penalty,
    )
    return tokens_BWT[:, 0]


def _round_up(size: int, most: int, *, factor: int = 2, least: int = 16) -> int:
    """The next of least, least * factor, ..., but at most `most`: few static shapes."""
    rounded = least
    while rounded < size:
        rounded *= factor
    return max(1, min(rounded, most))


def read_config(workdir: Path) -> ml_collections.ConfigDict:
    """The resolved config that a workdir was trained with."""
    path = workdir / "config.json"
    if not path.is_file():
        raise ValueError(
            f"{workdir} holds no config.json: give --workdir a folder that training has made "
            "(python launch.py --config=configs/quickstart.py makes runs/quickstart)"
        )

    def tuples(value: object) -> object:
        if isinstance(value, dict):
            return {name: tuples(v) for name, v in value.items()}
        return tuple(map(tuples, value)) if isinstance(value, list) else value

    return ml_collections.ConfigDict(tuples(json.loads(path.read_bytes())))


def read_vocabulary(workdir: Path, config: ml_collections.ConfigDict) -> tokenizer.Vocabulary:
    """A run's vocabulary; refused if it is not the one that config.json names."""
    folder = workdir / "vocabulary"
    names = ("shared",) if config.vocabulary.shared else ("source", "target")
    for name in names:
        if not (folder / f"{name}.model").is_file():
            raise ValueError(f"{folder / name}.model is missing: nothing can be read without it")
    pieces = [
        tokenizer.load((folder / f"{name}.model").read_bytes(), str(folder / f"{name}.model"))
        for name in names
    ]
    vocabulary = tokenizer.Vocabulary(pieces[0], pieces[-1])
    if vocabulary.fingerprint != config.vocabulary.fingerprint:
        raise ValueError(
            f"{folder} holds the vocabulary {vocabulary.fingerprint}, but this run was trained "
            f"with {config.vocabulary.fingerprint}: ids would mean other pieces"
        )
    return vocabulary


def build_model(config: ml_collections.ConfigDict, vocabulary: tokenizer.Vocabulary) -> nn.Module:
    """The model that a config describes, over a vocabulary."""
    return models.build(
        config.architecture,
        config.model.to_dict(),
        source_vocab_size=len(vocabulary.source),
        target_vocab_size=len(vocabulary.target),
    )


def initial_parameters(model: nn.Module, rng: jax.Array) -> Tree:
    """Random parameters: a function of the model and the key alone."""
    ids = jnp.ones((1, 2), jnp.int32)
    return model.init(rng, ids, ids, ids, ids, ids, ids, train=False)["params"]


def abstract_parameters(model: nn.Module, sharding: parallel.Sharding) -> Tree:
    """Shapes and types of a model's parameters, without any being made."""
    initialise = functools.partial(initial_parameters, model)
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding),
        jax.eval_shape(initialise, jax.random.key(0)),
    )


def load(workdir: Path, config: ml_collections.ConfigDict) -> tuple[Translator, Tree, list[int]]:
    """A workdir's translator, its parameters by `config.evaluate.weights`, and their steps."""
    vocabulary = read_vocabulary(workdir, config)
    model = build_model(config, vocabulary)
    parameters, steps = checkpoint.load(
        workdir,
        abstract_parameters(model, parallel.one_device()),
        vocabulary.fingerprint,
        weights=config.evaluate.weights,
        average_last=config.evaluate.average_last,
        every=config.train.save_every,
    )
    return Translator(model, vocabulary, **config.decode), parameters, steps


def translate(config: ml_collections.ConfigDict, workdir: Path) -> None:
    """--mode=translate: standard input to standard output, line by line."""
    if sys.stdin.isatty():
        config.decode.chunk_lines = 1  # somebody is waiting for each line
    translator, parameters, steps = load(workdir, config)
    logging.info("translating with %s weights of step(s) %s", config.evaluate.weights, steps)
    found = translator.translate(parameters, _lines(sys.stdin.buffer))
    for text in metrics.progress(found, "translate"):
        sys.stdout.buffer.write(f"{text}\n".encode())  # UTF-8, whatever the locale
        sys.stdout.buffer.flush()
    if translator.num_split:
        logging.warning("%d lines were over-long and translated in parts", translator.num_split)


def _lines(file: Iterable[bytes]) -> Iterator[str]:
    """Lines end at \\n only (or \\r\\n); bytes that are not UTF-8 are replaced, with a warning."""
    for number, line in enumerate(file, start=1):
        line = line.rstrip(b"\r\n")
        text = line.decode("utf-8", "replace")
        if text.encode() != line:
            logging.warning("line %d: bytes that are not UTF-8 were replaced", number)
        yield text
