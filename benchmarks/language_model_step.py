"""How fast a training step of the language model is, beside the same GPT written in PyTorch.

    pip install torch
    python -m benchmarks.language_model_step --config configs/shakespeare.py

A step is forward, backward, clipping and AdamW on random ids, with the shape, the batch and the
optimizer of --config. PyTorch has its fused attention and its fused AdamW; torch-compile also
compiles forward and backward. The engines take turns, each in a process of its own, with the
allocator that launch.py sets up; medians are printed. --peers names a Python that has PyTorch, if
this one has not.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable

from benchmarks import yardstick

START = time.time()
KEYS = ("d_model", "d_ff", "num_heads", "num_layers", "dropout_rate", "attention_dropout_rate")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", default="configs/shakespeare.py")
    parser.add_argument("--engines", default="this,torch,torch-compile")
    parser.add_argument("--peers", default=sys.executable)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0, help="a turn's")
    parser.add_argument("--engine", help="one engine's turn (for the program itself)")
    parser.add_argument("--shape", help="the model's, as JSON (for the program itself)")
    arguments = parser.parse_args()
    if arguments.engine:
        turn(arguments)
    else:
        report(arguments)


def report(arguments: argparse.Namespace) -> None:
    """Lets the engines take turns and prints a row for each."""
    from transformer.workdir import config_files

    config = config_files.load_config(arguments.config)
    shape = {key: config.model[key] for key in KEYS}
    shape |= {"vocab_size": config.vocabulary.size, "length": config.data.context_length}
    shape["rows"] = config.data.batch_tokens // shape["length"]
    shape |= {"clip_norm": config.optimizer.clip_norm, **config.optimizer.arguments}
    names = arguments.engines.split(",")
    pythons = {name: sys.executable if name == "this" else arguments.peers for name in names}
    module, options = "benchmarks.language_model_step", ("--shape", json.dumps(shape))
    taken = yardstick.take_turns(module, pythons, arguments.turns, *options)
    print("tokens/s | ms a step (all turns) | first step, s | params | engine")
    for name, results in taken.items():
        seconds, first = ([x[key] for x in results] for key in ("seconds", "first"))
        tokens = shape["rows"] * shape["length"] / statistics.median(seconds)
        times = f"{1e3 * statistics.median(seconds):.1f} "
        times += f"({1e3 * min(seconds):.1f} to {1e3 * max(seconds):.1f})"
        print(
            f"{tokens:8,.0f}   {times:21} {statistics.median(first):15.1f}"
            f"   {results[0]['params']:,}   {name}"
        )


def turn(arguments: argparse.Namespace) -> None:
    """One engine's turn: its step's median, its start-up and its params, as JSON."""
    shape = json.loads(arguments.shape)
    if arguments.engine == "this":
        step, num_params = ours(arguments.config, shape)
    else:
        step, num_params = theirs(shape, compiled=arguments.engine == "torch-compile")
    step()
    first = time.time() - START
    for _ in range(3):
        step()
    seconds = statistics.median(yardstick.timed(step, least=5, seconds=arguments.seconds))
    print(json.dumps({"seconds": seconds, "first": first, "params": num_params}))


def ours(name: str, shape: dict) -> tuple[Callable[[], float], int]:
    """A function that makes one update and gives its loss, and the number of params."""
    import jax
    import numpy as np

    from transformer.families.language_model import language_modelling
    from transformer.runtime import startup
    from transformer.tasks.task import abstract_params
    from transformer.workdir import config_files

    config = config_files.load_config(name)
    startup.set_compilation_cache("")
    model = language_modelling.model(config, {"vocab_size": shape["vocab_size"]})
    params = abstract_params(model, language_modelling.example(config, 1))
    B, T = shape["rows"], shape["length"]
    ids_BT = np.random.default_rng(0).integers(4, shape["vocab_size"], (B, T + 1)).astype(np.int32)
    positions_BT = np.tile(np.arange(T, dtype=np.int32), (B, 1))
    inputs = {"tokens": ids_BT[:, :-1], "positions": positions_BT}
    batch = {
        "inputs": {**inputs, "segments": np.ones((B, T), np.int32)},
        "targets": ids_BT[:, 1:],
        "weights": np.ones((B, T), np.float32),
    }
    step = yardstick.updates(config, model, language_modelling, batch)
    return step, sum(leaf.size for leaf in jax.tree.leaves(params))


def theirs(shape: dict, *, compiled: bool) -> tuple[Callable[[], float], int]:
    """The same by PyTorch."""
    import torch

    torch.manual_seed(0)
    V, B, T = shape["vocab_size"], shape["rows"], shape["length"]
    ids_BT = torch.randint(4, V, (B, T + 1))
    model = torch_gpt(shape)
    adamw = torch.optim.AdamW(
        model.parameters(),
        betas=(shape["b1"], shape["b2"]),
        weight_decay=shape["weight_decay"],
        fused=True,
    )

    def loss_of(ids_BT: torch.Tensor) -> torch.Tensor:
        logits_BTV = model(ids_BT[:, :-1])
        return torch.nn.functional.cross_entropy(logits_BTV.flatten(0, 1), ids_BT[:, 1:].flatten())

    loss_of = torch.compile(loss_of) if compiled else loss_of

    def step() -> float:
        adamw.zero_grad(set_to_none=True)
        loss = loss_of(ids_BT)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), shape["clip_norm"])
        adamw.step()
        return loss.item()

    return step, sum(x.numel() for x in model.parameters())


def torch_gpt(shape: dict) -> "torch.nn.Module":  # noqa: F821 (imported where it is installed)
    """A GPT of the language model's layers: pre-norm, no biases in attention, tied embeddings."""
    import torch
    from torch import nn

    D, F, H = shape["d_model"], shape["d_ff"], shape["num_heads"]
    dropout_rate, attention_rate = shape["dropout_rate"], shape["attention_dropout_rate"]

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(D), nn.LayerNorm(D)])
            self.queries_keys_values = nn.Linear(D, 3 * D, bias=False)
            self.out = nn.Linear(D, D, bias=False)
            self.feed_forward = nn.Sequential(nn.Linear(D, F), nn.GELU(), nn.Linear(F, D))
            self.dropout = nn.Dropout(dropout_rate)

        def attention(self, x_BTD: torch.Tensor) -> torch.Tensor:
            B, T, _ = x_BTD.shape
            heads = self.queries_keys_values(x_BTD).view(B, T, 3, H, D // H)
            q_BHTK, k_BHTK, v_BHTK = heads.permute(2, 0, 3, 1, 4)
            rate = attention_rate if self.training else 0.0
            values_BHTK = nn.functional.scaled_dot_product_attention(
                q_BHTK, k_BHTK, v_BHTK, dropout_p=rate, is_causal=True
            )
            return self.out(values_BHTK.transpose(1, 2).reshape(B, T, D))

        def forward(self, x_BTD: torch.Tensor) -> torch.Tensor:
            x_BTD = x_BTD + self.dropout(self.attention(self.norms[0](x_BTD)))
            return x_BTD + self.dropout(self.feed_forward(self.norms[1](x_BTD)))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(shape["vocab_size"], D)
            self.positions = nn.Embedding(shape["length"], D)
            self.dropout = nn.Dropout(dropout_rate)
            self.layers = nn.Sequential(*[Layer() for _ in range(shape["num_layers"])])
            self.norm = nn.LayerNorm(D)
            for table in (self.tokens, self.positions):
                nn.init.normal_(table.weight, std=D**-0.5)

        def forward(self, ids_BT: torch.Tensor) -> torch.Tensor:
            positions_T = torch.arange(ids_BT.shape[1])
            x_BTD = (self.tokens(ids_BT) + self.positions(positions_T)) * D**0.5
            x_BTD = self.layers(self.dropout(x_BTD))
            return self.norm(x_BTD) @ self.tokens.weight.T

    return GPT()


if __name__ == "__main__":
    main()
