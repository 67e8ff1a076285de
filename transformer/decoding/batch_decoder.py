"""Ids -> hypotheses: sentences in batches of few static shapes, several batches at a time."""

import concurrent.futures
import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

import flax.linen as nn
import jax
import numpy as np

from transformer.data import tokenizer
from transformer.decoding import beam_search, compiled, shapes
from transformer.distributed import inference
from transformer.errors import UserError
from transformer.monitoring.memory import fits_in_memory

Tree = dict
Found = list[tuple[list[int], float]]  # a sentence's hypotheses: ids without the end symbol, score

METHODS = ("beam", "sample", "mbr")
SAMPLES_TOGETHER = 8  # attention among a sentence's beams costs their square


class Part(NamedTuple):
    """The ids of a line, or of a part of one that is over-long."""

    source: tuple[int, ...]
    prefix: tuple[int, ...] = ()
    draw: tuple[int, ...] = ()  # what its random numbers depend on besides the seed


class Searcher:
    """Finds translations by a model: the best ones, or random ones.

    Each static shape is compiled once. A batch shrinks as its sentences finish, and has no more
    room for their translations than these need.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        method: str,
        beam_width: int,
        length_penalty: str,
        length_alpha: float,
        num_hypotheses: int,
        num_samples: int,
        temperature: float,
        top_k: int,
        top_p: float,
        seed: int,
        min_length: int,
        extra_length: int,
        batch_tokens: int,
        workers: int,
    ):
        """The keys of config.decode, whose meaning is in configs/wmt_base.py."""
        for key, found, choices in (
            ("method", method, METHODS),
            ("length_penalty", length_penalty, beam_search.PENALTIES),
        ):
            if found not in choices:
                raise UserError(
                    f"config.decode.{key} is one of {', '.join(choices)}, found {found!r}"
                )
        for key, found, least in (
            ("beam_width", beam_width, 1),
            ("length_alpha", length_alpha, 0),
            ("num_hypotheses", num_hypotheses, 1),
            ("num_samples", num_samples, 1),
            ("top_k", top_k, 0),
            ("seed", seed, 0),
            ("min_length", min_length, 0),
            ("extra_length", extra_length, 1),
            ("batch_tokens", batch_tokens, 1),
            ("workers", workers, 0),
        ):
            if not least <= found < 2**31:
                raise UserError(
                    f"config.decode.{key} is at least {least} and below 2^31, found {found}"
                )
        for key, found, most in (("temperature", temperature, 1000), ("top_p", top_p, 1)):
            if not 0 < found <= most:
                raise UserError(f"config.decode.{key} is above 0, at most {most}, found {found}")
        limits = {"beam": ("beam_width", beam_width), "mbr": ("num_samples", num_samples)}
        if method in limits and num_hypotheses > limits[method][1]:
            raise UserError(
                f"config.decode.num_hypotheses={num_hypotheses} is more than "
                f"config.decode.{limits[method][0]}={limits[method][1]} finds"
            )
        self.model = model
        self.method = method
        self._min_length = min_length
        self._extra_length = extra_length
        self._batch_tokens = batch_tokens
        self._workers = workers or (min(8, _cores()) if jax.default_backend() == "cpu" else 1)
        self._pool = concurrent.futures.ThreadPoolExecutor(self._workers)
        options = {"penalty": length_penalty, "alpha": length_alpha}
        if method == "beam":
            self._beams, self._draws, self._found = beam_width, 1, beam_width
            options |= {"num_hypotheses": num_hypotheses}
        else:
            self._found = num_samples if method == "mbr" else num_hypotheses
            self._draws = -(-self._found // SAMPLES_TOGETHER)
            self._beams = -(-self._found // self._draws)
            options |= {"temperature": temperature, "top_k": top_k, "top_p": top_p}
        self._start = functools.partial(
            compiled.start, seed=seed, model=model, num_beams=self._beams
        )
        self._advance = functools.partial(
            compiled.advance, model=model, beam=method == "beam", options=tuple(options.items())
        )
        self._compiled, self._lock = set(), threading.Lock()

    def __call__(
        self,
        parameters: Tree,
        parts: list[Part],
        finished: Callable[[float], None] = lambda share: None,
    ) -> list[Found]:
        """Each part's hypotheses, best first, or samples as drawn; parameters are `in_dtype`.

        `finished` is told what share of the work is done, each time that a batch is.
        """
        longest = [max(len(part.source), len(part.prefix)) for part in parts]
        # Several devices search a batch together, one batch after the other.
        devices = inference.num_devices(parameters)
        workers = self._workers if devices == 1 else 1
        batches = self._batches(longest, workers, devices)
        search = functools.partial(self._search_held, parameters)
        found = [[] for _ in parts]
        if self.method == "beam":
            rows = [[parts[i] for i, _ in batch] for batch in batches]
        else:
            rows = [[_drawn(parts[i], draw) for i, draw in batch] for batch in batches]
        done = 0
        searched = (self._pool.map if workers > 1 else map)(search, rows)
        for batch, results in zip(batches, searched, strict=True):
            done += len(batch)
            finished(done / (len(parts) * self._draws))
            for (i, _), hypotheses in zip(batch, results, strict=True):
                found[i] += hypotheses
        return [hypotheses[: self._found] for hypotheses in found]

    def rehearse(self, parameters: Tree, lengths: list[int]) -> None:
        """Searches once in the largest shape that sources of these lengths come in."""
        devices = inference.num_devices(parameters)

        def size(batch: list[tuple[int, int]]) -> tuple[int, int]:
            length = lengths[batch[0][0]]
            return shapes.rows_for_devices(devices, len(batch)) * self._room(length), length

        batches = self._batches(lengths, 1, devices)
        batch = max(batches, key=size)
        length = lengths[batch[0][0]]
        # What it has to begin with goes on up to its limit.
        most = max(length - 1 + self._extra_length, self._min_length)
        part = Part(
            (*[tokenizer.UNKNOWN] * (length - 1), tokenizer.END), (tokenizer.UNKNOWN,) * most
        )
        self._search_held(parameters, [part] * len(batch))

    def _batches(
        self, lengths: list[int], workers: int, devices: int
    ) -> list[list[tuple[int, int]]]:
        """Which parts, and which of a part's draws, are searched together; the longest first."""
        order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
        order = [(i, draw) for i in order for draw in range(self._draws)]
        share = len(order) // (workers * devices)  # all of them are to have something to do
        batches = []
        while order:
            full = max(1, self._batch_tokens // self._room(lengths[order[0][0]]))
            left = -(-len(order) // devices)
            rows = devices * shapes.power(4, full, most=min(full, max(4, share), max(4, left)))
            batches.append(order[:rows])
            order = order[rows:]
        return batches

    def _room(self, length: int) -> int:
        """For how many tokens there is room where sources have up to `length` of them."""
        return shapes.next_power_of_two(length) + self._extra_length

    def _search_held(self, parameters: Tree, batch: list[Part]) -> list[Found]:
        longest = max(len(part.source) for part in batch)
        what = f"a search of {len(batch)} sentences of {longest} pieces, {self._beams} beams each,"
        with fits_in_memory(what, "lower config.decode.batch_tokens"):
            return self._search_batch(parameters, batch)

    @contextlib.contextmanager
    def _compiling(self, *shape: object) -> Iterator[None]:
        """Lets one worker at a time compile; the others find it done."""
        with contextlib.ExitStack() as compiling:
            if shape not in self._compiled:
                compiling.enter_context(self._lock)
                if shape in self._compiled:
                    compiling.close()
            yield
            self._compiled.add(shape)

    def _search_batch(self, parameters: Tree, batch: list[Part]) -> list[Found]:
        """Each row's hypotheses, (ids, score)."""
        devices = inference.num_devices(parameters)
        rows = shapes.rows_for_devices(devices, len(batch))
        longest = max(len(part.source) for part in batch)
        length = shapes.next_power_of_two(longest)
        sources = [part.source for part in batch]
        source_BS = tokenizer.padded(sources, rows, shapes.finely(longest))
        prefixes = [part.prefix for part in batch]
        most = [len(part.source) - 1 + self._extra_length for part in batch]
        most = np.maximum(most, [max(self._min_length, len(prefix)) for prefix in prefixes])
        last = shapes.next_power_of_two(
            max(length + self._extra_length, max(most) + 1), 32
        )  # all the room there is
        prefix_BT = tokenizer.padded(prefixes, rows, last)
        # Rows that only fill the batch end at once.
        empty = rows - len(batch)
        bounds = beam_search.Bounds(
            np.array([self._min_length] * len(batch) + [0] * empty, np.int32),
            np.array([*most, *[0] * empty], np.int32),
            prefix_BT,
        )
        draws = np.zeros((rows, 3), np.int32)
        draws[: len(batch), : len(batch[0].draw)] = [part.draw for part in batch]

        source_BS, draws, bounds = inference.shard_rows((source_BS, draws, bounds), parameters)
        room = length  # for tokens, so far
        with self._compiling("start", source_BS.shape):
            memory, search, rng_B = self._start(
                parameters, source_BS, draws, length=length, room=room
            )
        found, here = [[]] * rows, np.arange(rows)  # which row each of those in the search was
        while True:
            until = len(here) // 4 if len(here) > devices else 0
            with self._compiling("advance", length, last, *search.tokens_BWT.shape):
                search = self._advance(
                    parameters, memory, search, bounds, rng_B, until_active=until
                )
            active, t = np.asarray(search.active_B), int(search.t)
            done = ~active if t < last else np.ones_like(active)
            for row, tokens, scores in zip(
                here[done],
                np.asarray(search.tokens_BWT)[done],
                np.asarray(search.scores_BW)[done],
                strict=True,
            ):
                found[row] = _finished(tokens, scores)
            if done.all():
                return found[: len(batch)]
            size = shapes.rows_for_devices(devices, int(active.sum()))
            keep = np.argsort(~active, kind="stable")[:size]
            if t == room:
                room = min(last, 2 * room)
            state = (memory, search, bounds, rng_B)
            state = compiled.resized(state, keep, model=self.model, room=room)
            memory, search, bounds, rng_B = inference.shard_rows(state, parameters)
            here = here[keep]


def _drawn(part: Part, draw: int) -> Part:
    return part._replace(draw=(*part.draw, draw))


def _cores() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _finished(tokens_WT: np.ndarray, scores_W: np.ndarray) -> Found:
    """One sentence's finished hypotheses."""
    found = []
    for ids, score in zip(tokens_WT.tolist(), scores_W.tolist(), strict=True):
        if score > -np.inf:
            found.append((ids[: ids.index(tokenizer.END)], score))
    if not found:
        raise FloatingPointError("the model's scores are no numbers: bad parameters")
    return found
