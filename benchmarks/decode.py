"""How fast decoding is, beside CTranslate2 on the same weights.

    pip install ctranslate2==4.8.5
    python -m benchmarks.decode --model small --batch 32
    python -m benchmarks.decode --workdir runs/tatoeba --file lines.txt

The first decodes 25 source ids to exactly 30 target ids by random parameters, beam 4, length
penalty 0.6. The second translates a file from text to text. The engines take turns, each in a
process of its own, with the allocator that launch.py sets up; medians are printed. CTranslate2 is
tried with every division of the cores into workers and threads.

The first also gives the FLOPs a second of the products with weights, as shares of the ceiling, the
rate of such products alone (benchmarks/ceiling.py). If PyTorch is installed, it multiplies, too.
"""

import argparse
import functools
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import ctranslate2
import flax.linen as nn
import flax.traverse_util
import jax
import numpy as np

from benchmarks import ceiling, yardstick
from configs import wmt_base
from transformer.data.tokenizer import END
from transformer.decoding import compiled
from transformer.decoding.batch_decoder import Part
from transformer.decoding.translator import Translator
from transformer.models import kernels
from transformer.runtime import startup
from transformer.tasks import translation
from transformer.tasks.saved_model import SavedModel
from transformer.tasks.task import init_params
from transformer.tools.convert import ctranslate2_write
from transformer.workdir import saved_config

SOURCE, TARGET = 25, 30
CORES = len(os.sched_getaffinity(0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=yardstick.SIZES, default="small")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--workdir", type=Path)
    parser.add_argument("--file", type=Path)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="a turn's")
    parser.add_argument("--engine", help="one engine's turn (for the program itself)")
    parser.add_argument("--folder", type=Path, help="of the converted model (likewise)")
    arguments = parser.parse_args()
    if arguments.engine:
        turn(arguments)
        return
    with tempfile.TemporaryDirectory() as folder:
        arguments.folder = Path(folder)
        convert(arguments)
        report(arguments)


def engines(arguments: argparse.Namespace) -> list[str]:
    """Names: ours by type, CTranslate2's by type, workers and threads of each."""
    names = ["this-float32", "this-bfloat16"]
    for dtype, workers in itertools.product(("float32", "int8"), {1, CORES}):
        for threads in {1, CORES // workers}:
            if workers == 1 or arguments.file or workers <= arguments.batch:
                names.append(f"ctranslate2-{dtype}-{workers}x{threads}")
    return names


def report(arguments: argparse.Namespace) -> None:
    """Lets the engines take turns and prints a table."""
    libraries = () if arguments.file else ceiling.LIBRARIES  # a file's products have many shapes
    pythons = dict.fromkeys((*libraries, *engines(arguments)), sys.executable)
    folder = ("--folder", str(arguments.folder))
    taken = yardstick.take_turns("benchmarks.decode", pythons, arguments.turns, *folder)
    ceilings = ceiling.report({name: taken.pop(name) for name in libraries})
    flops = ceiling.flops(products(arguments))
    median = lambda name: statistics.median(statistics.median(x["seconds"]) for x in taken[name])
    ours = taken["this-float32"]
    print(
        f"{ours[0]['unit']}/s | of this code's float32 | {ceiling.SHARES} | first time, s | "
        "same output | engine"
    )
    for name, turns in taken.items():
        seconds = median(name)
        share = ceiling.shares(name, flops / seconds / 1e9, ceilings)
        pairs = zip(ours[-1]["output"], turns[-1]["output"], strict=True)
        equal = np.mean([a == b for a, b in pairs])
        print(
            f"{turns[0]['count'] / seconds:10.0f} {seconds / median('this-float32'):6.2f} {share} "
            f"{turns[0]['first']:6.1f} {equal:8.2%}  {name}",
            flush=True,
        )


def turn(arguments: argparse.Namespace) -> None:
    """One engine's turn: its times on standard output, as JSON."""
    kind, *of_engine = arguments.engine.split("-")
    if kind == "ceiling":
        print(json.dumps(ceiling.rates(arguments.engine, products(arguments))))
        return
    if kind == "this":
        startup.schedule_for_memory()  # as launch.py
        config = wmt_base.get_config()
        startup.set_compilation_cache(config.compilation_cache)
        kernels.use(config.kernels)
        run, count, unit = ours(arguments, of_engine[0])
    else:
        run, count, unit = theirs(arguments, *of_engine)
    start = time.perf_counter()
    output = run()
    first = time.perf_counter() - start
    run()
    seconds = yardstick.timed(run, least=3, seconds=arguments.seconds)
    values = {"seconds": seconds, "first": first, "output": output, "count": count, "unit": unit}
    print(json.dumps(values))


def products(arguments: argparse.Namespace) -> ceiling.Products:
    """The products with weights of what each engine decodes, with four beams."""
    sizes = {**yardstick.SIZES[arguments.model], "B": arguments.batch, "S": SOURCE, "T": TARGET}
    return ceiling.decoding_products(sizes, beams=4)


def ours(arguments: argparse.Namespace, dtype: str) -> tuple[Callable, int, str]:
    """A function that decodes once, how much it decodes, and of what."""
    if arguments.file:
        config = saved_config.read_with_defaults(arguments.workdir)
        config.model.dtype = dtype
        config.decode.length_penalty = "power"  # the only one that CTranslate2 has
        run = translation.load(config, arguments.workdir)
        translator = Translator(run.model, run.vocabulary, **config.decode)
        text = lines(arguments)
        return lambda: list(translator.translate(run.params, text)), len(text), "sentences"
    config, model, parameters, sources = synthetic(arguments, dtype)
    translator = Translator(model, None, **config.decode)
    parameters = compiled.cast_params(parameters, model)
    parts = [Part(tuple(source)) for source in sources]

    def decode() -> list[list[int]]:
        best = [hypotheses[0][0] for hypotheses in translator.batch_decoder(parameters, parts)]
        assert {len(ids) + 1 for ids in best} == {TARGET}
        return best

    return decode, arguments.batch * TARGET, "target tokens"


def theirs(arguments: argparse.Namespace, dtype: str, division: str) -> tuple[Callable, int, str]:
    """The same by CTranslate2, with WORKERSxTHREADS."""
    workers, threads = map(int, division.split("x"))
    engine = ctranslate2.Translator(
        str(arguments.folder),
        device="auto",
        compute_type=dtype,
        inter_threads=workers,
        intra_threads=threads,
    )
    translate = functools.partial(engine.translate_batch, beam_size=4, length_penalty=0.6)
    if arguments.file:
        source, target = load(arguments.workdir).vocabulary
        text = lines(arguments)

        def translate_file() -> list[str]:
            tokens = source.processor.encode(text, out_type=str)
            results = translate(tokens, max_batch_size=64, max_decoding_length=250)
            return target.processor.decode_pieces([result.hypotheses[0] for result in results])

        return translate_file, len(text), "sentences"
    _, _, _, sources = synthetic(arguments, "float32")
    tokens = [[f"w{i}" for i in source[:-1]] for source in sources]
    options = {
        "max_batch_size": -(-arguments.batch // workers),
        "min_decoding_length": TARGET,  # here without the end symbol, which is not decoded
        "max_decoding_length": TARGET,
    }

    def decode() -> list[list[int]]:
        best = [result.hypotheses[0] for result in translate(tokens, **options)]
        assert {len(pieces) for pieces in best} == {TARGET}
        return [[int(piece[1:]) for piece in pieces[:-1]] for pieces in best]

    return decode, arguments.batch * TARGET, "target tokens"


def synthetic(arguments: argparse.Namespace, dtype: str) -> tuple:
    """Returns (config, model, random parameters, random source ids)."""
    config, model = yardstick.transformer(arguments.model, dtype)
    # As many ids as the source has before its end symbol and 5 more: 30 with the end symbol.
    config.decode.min_length = TARGET - 1
    config.decode.extra_length = TARGET - SOURCE
    example = translation.example(config, 1)
    initialise = functools.partial(init_params, model, example)
    parameters = jax.jit(initialise)(jax.random.key(0))
    shape = arguments.batch, SOURCE - 1
    ids_BS = np.random.default_rng(0).integers(4, model.source_vocab_size, shape)
    return config, model, parameters, [[*ids, END] for ids in ids_BS.tolist()]


def convert(arguments: argparse.Namespace) -> None:
    """Writes the model for CTranslate2."""
    if arguments.file:
        run = load(arguments.workdir)
        pieces = [side.pieces(range(len(side))) for side in run.vocabulary]
        save(arguments.folder, run.model, run.params, pieces)
        return
    _, model, parameters, _ = synthetic(arguments, "float32")
    names = ["<pad>", "</s>", "<unk>", "<s>"]
    pieces = names + [f"w{i}" for i in range(4, model.target_vocab_size)]
    save(arguments.folder, model, parameters, [pieces, pieces])


def load(workdir: Path) -> SavedModel:
    """Returns a trained model with its vocabulary."""
    return translation.load(saved_config.read_with_defaults(workdir), workdir)


def save(folder: Path, model: nn.Module, params: dict, pieces: list[list[str]]) -> None:
    """Writes a model for CTranslate2; `pieces` are those of source and target."""
    folder.mkdir(parents=True, exist_ok=True)
    flat = flax.traverse_util.flatten_dict(params, sep="/")
    arrays = {path: np.asarray(array, np.float32) for path, array in flat.items()}
    ctranslate2_write.write(folder, model, arrays, pieces)


def lines(arguments: argparse.Namespace) -> list[str]:
    return arguments.file.read_text(encoding="utf-8").split("\n")[:-1]


if __name__ == "__main__":
    main()
