"""How fast a training step is, beside PyTorch's nn.Transformer and Hugging Face's Marian.

    pip install torch transformers
    python -m benchmarks.train_step --model small

The paper's batch, on a GPU:

    python -m benchmarks.train_step --model base --batch 195 --length 128 --updates 5 \
        --engines this-bfloat16,this-bfloat16-cudnn,torch-compile-bfloat16

A step is forward, backward and Adam, with label smoothing 0.1 and base's dropout of 0.1 (of
sub-layers' outputs and embeddings, not of weights of attention), of random ids that fill every
position. The engines take turns, each in a process of its own; medians are printed. --peers names
a Python that has PyTorch, if this one has not; with --peers "" only this code runs. All of them run
with an allocator that gives nothing back to the system and asks for huge pages, as launch.py does;
--memory=default leaves it as it is. The peers' bfloat16 is autocast.

Of accelerators one is used. --updates are dispatched before the last one is waited for, as in
training. Memory is the device's peak, with what compiling takes. float32 products are TF32 on
NVIDIA's GPUs and bfloat16 on TPUs, as is JAX's default.

FLOPs are by the formula in docs/performance.md. Their rate is also given as shares of the ceiling,
the rate of matrix products alone (benchmarks/ceiling.py).
"""

import argparse
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable

from benchmarks import ceiling, yardstick

START = time.time()
BATCHES = {"small": {"B": 64, "S": 32, "T": 32}, "base": {"B": 16, "S": 64, "T": 64}}
BATCHES["big"] = BATCHES["base"]
THEIRS = ("torch", "torch-bfloat16", "torch-compile", "torch-compile-bfloat16")
THEIRS += ("marian", "marian-bfloat16")
OURS = ("this-float32", "this-bfloat16", "this-bfloat16-cudnn")
DROPOUT, SMOOTHING, RATE, BETAS, EPSILON = 0.1, 0.1, 1e-4, (0.9, 0.98), 1e-9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=yardstick.SIZES, default="small")
    parser.add_argument("--batch", type=int, default=0, help="pairs; 0: the model's own")
    parser.add_argument("--length", type=int, default=0, help="ids a side; 0: the model's own")
    parser.add_argument("--updates", type=int, default=1, help="dispatched before a wait")
    parser.add_argument("--engines", default=",".join((*OURS[:2], *THEIRS[:2], *THEIRS[-2:])))
    parser.add_argument("--memory", choices=("kept", "default"), default="kept")
    parser.add_argument("--peers", default=sys.executable)
    parser.add_argument("--cache", default="", help="a folder for our compiled programs")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0, help="a turn's")
    parser.add_argument("--trace", default="", help="a folder for three updates of this code")
    parser.add_argument("--engine", help="one engine's turn (for the program itself)")
    arguments = parser.parse_args()
    if arguments.engine:
        turn(arguments)
    else:
        report(arguments)


def report(arguments: argparse.Namespace) -> None:
    """Lets the engines take turns and prints a table."""
    names = arguments.engines.split(",")
    of_peers = (*THEIRS, "ceiling-peers")
    pythons = {
        name: arguments.peers if name in of_peers else sys.executable
        for name in (*ceiling.LIBRARIES, *names)
    }
    pythons = {name: python for name, python in pythons.items() if python}
    kept = arguments.memory == "kept"
    taken = yardstick.take_turns(
        "benchmarks.train_step", pythons, arguments.turns, kept_memory=kept
    )
    sizes = sizes_of(arguments)
    tokens = sizes["B"] * sizes["T"]
    _, model = yardstick.transformer(arguments.model, "float32")
    flops = model.flops(sizes["B"], sizes["T"])  # and as many source positions
    libraries = [name for name in ceiling.LIBRARIES if name in taken]
    ceilings = ceiling.report({name: taken.pop(name) for name in libraries})
    print(
        f"target tokens/s | GFLOP/s | {ceiling.SHARES} | ms a step | first step, s | memory, GB | "
        "engine"
    )
    for name, turns in taken.items():
        middle = {key: statistics.median(t[key] for t in turns) for key in turns[0]}
        seconds = middle["seconds"]
        rate = flops / seconds / 1e9
        print(
            f"{tokens / seconds:13,.0f} {rate:9.0f} {ceiling.shares(name, rate, ceilings)} "
            f"{1e3 * seconds:11.1f} "
            f"{middle['first']:13.1f} {middle['memory']:13.2f}   {name}",
            flush=True,
        )


def turn(arguments: argparse.Namespace) -> None:
    """One engine's turn: its step's median, its start-up and memory on standard output, as JSON."""
    name, sizes = arguments.engine, sizes_of(arguments)
    if name in ceiling.LIBRARIES:
        print(json.dumps(ceiling.rates(name, ceiling.step_products(sizes))))
        return
    if name in OURS:
        step = ours(arguments, name.removeprefix("this-"), sizes)
    else:
        step = theirs(name, sizes)
    step()
    first = time.time() - START
    for _ in range(2):
        step()
    updates = arguments.updates
    times = yardstick.timed(lambda: step(updates), least=5, seconds=arguments.seconds)
    seconds = statistics.median(times) / updates
    if arguments.trace and name in OURS:
        import jax

        with jax.profiler.trace(f"{arguments.trace}/profile", create_perfetto_trace=True):
            step(3)
    memory = device_memory(name) or yardstick.peak_memory(resource.getrusage(resource.RUSAGE_SELF))
    print(json.dumps({"seconds": seconds, "first": first, "memory": memory}))


def sizes_of(arguments: argparse.Namespace) -> dict[str, int]:
    sizes = {**yardstick.SIZES[arguments.model], **BATCHES[arguments.model]}
    lengths = {side: arguments.length or sizes[side] for side in "ST"}
    return {**sizes, **lengths, "B": arguments.batch or sizes["B"]}


def device_memory(engine: str) -> float:
    """The peak memory of an engine's accelerator in GB, 0 on a CPU."""
    if engine in OURS:
        import jax

        usage = jax.local_devices()[0].memory_stats() or {}
        return usage.get("peak_bytes_in_use", 0) / 1e9
    import torch

    return torch.cuda.max_memory_allocated() / 1e9 if torch.cuda.is_available() else 0.0


def ours(arguments: argparse.Namespace, kind: str, sizes: dict[str, int]) -> Callable[..., float]:
    """A function that makes some updates, by default one, and gives the last loss."""
    from transformer.runtime import startup

    startup.set_compilation_cache(arguments.cache)
    dtype, _, kernels = kind.partition("-")
    config, model = yardstick.transformer(arguments.model, dtype)
    config.kernels = kernels or config.kernels
    return yardstick.training_step(config, model, sizes, num_devices=1)


def theirs(name: str, sizes: dict[str, int]) -> Callable[..., float]:
    """The same by PyTorch, in float32 or under autocast, on its GPU if it has one."""
    import torch

    kind, in_bfloat16 = name.removesuffix("-bfloat16"), name.endswith("-bfloat16")
    V, B, S, T = (sizes[letter] for letter in "VBST")
    torch.manual_seed(0)
    torch.set_default_device(device := "cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = True  # as JAX by default
    source, targets = (torch.randint(4, V, (B, n)) for n in (S, T))
    shifted = targets.roll(1)
    model, call = marian(sizes) if kind == "marian" else torch_transformer(sizes)
    adam = torch.optim.Adam(model.parameters(), RATE, BETAS, EPSILON, fused=True)

    def loss_of(source: torch.Tensor, shifted: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        with torch.autocast(device, torch.bfloat16, enabled=in_bfloat16):
            logits = call(source, shifted)
        return torch.nn.functional.cross_entropy(
            logits.flatten(0, 1).float(), targets.flatten(), label_smoothing=SMOOTHING
        )

    loss_of = torch.compile(loss_of) if kind == "torch-compile" else loss_of

    def step(count: int = 1) -> float:
        for _ in range(count):
            adam.zero_grad(set_to_none=True)
            loss = loss_of(source, shifted, targets)
            loss.backward()
            adam.step()
        return loss.item()

    return step


def torch_transformer(sizes: dict[str, int]) -> tuple:
    """PyTorch's own Transformer behind an embedding and before its transpose."""
    import torch
    from torch import nn

    D, S, T = sizes["D"], sizes["S"], sizes["T"]
    angles = torch.arange(max(S, T))[:, None] / 10000 ** (torch.arange(0, D, 2) / D)
    sinusoids = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
    model = nn.ModuleDict(
        {
            "embedding": nn.Embedding(sizes["V"], D),
            "dropout": nn.Dropout(DROPOUT),
            "transformer": nn.Transformer(
                D, sizes["H"], sizes["L"], sizes["L"], sizes["F"], DROPOUT, batch_first=True
            ),
        }
    )
    for module in model.modules():
        if isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0
        if isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
            module.dropout.p = 0.0  # inside the feed-forward network
    matrix = model["embedding"].weight
    nn.init.normal_(matrix, std=D**-0.5)

    def embed(ids: torch.Tensor) -> torch.Tensor:
        return model["dropout"](model["embedding"](ids) * D**0.5 + sinusoids[: ids.shape[1]])

    def call(source: torch.Tensor, shifted: torch.Tensor) -> torch.Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(T)
        padding, shifted_padding = source == 0, shifted == 0
        hidden = model["transformer"](
            embed(source),
            embed(shifted),
            tgt_mask=causal.isinf(),
            src_key_padding_mask=padding,
            tgt_key_padding_mask=shifted_padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return hidden @ matrix.T

    return model, call


def marian(sizes: dict[str, int]) -> tuple:
    """Hugging Face's translation model."""
    import transformers

    stacks = {
        f"{side}_{name}": sizes[letter]
        for side in ("encoder", "decoder")
        for name, letter in (("layers", "L"), ("ffn_dim", "F"), ("attention_heads", "H"))
    }
    config = transformers.MarianConfig(
        **stacks,
        vocab_size=sizes["V"],
        decoder_vocab_size=sizes["V"],
        d_model=sizes["D"],
        max_position_embeddings=max(sizes["S"], sizes["T"]),
        dropout=DROPOUT,
        attention_dropout=0.0,
        activation_dropout=0.0,
        activation_function="relu",
        scale_embedding=True,
        share_encoder_decoder_embeddings=True,
        tie_word_embeddings=True,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        forced_eos_token_id=None,
    )
    model = transformers.MarianMTModel(config).train()

    def call(source: object, shifted: object) -> object:
        masks = {"attention_mask": source != 0, "decoder_attention_mask": shifted != 0}
        masks = {name: mask.long() for name, mask in masks.items()}
        return model(input_ids=source, decoder_input_ids=shifted, use_cache=False, **masks).logits

    return model, call


if __name__ == "__main__":
    main()
