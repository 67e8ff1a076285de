"""What the configs hold: the same keys everywhere, and the paper's values."""

import ast
import dataclasses
import importlib
from pathlib import Path

import pytest
from helpers.cases import slow_but

from configs import _layers
from transformer import registry
from transformer.models import layer_options
from transformer.modes import prepare
from transformer.workdir import config_files, key_tables

ROOT = Path(__file__).resolve().parents[1]
CONFIGS = sorted(path.stem for path in ROOT.glob("configs/[!_]*.py"))
OF_A_RUN = {"fine_tuning"}  # which cannot be loaded without a workdir


def variants(name):
    """A config, and those of its VARIANTS or, of WMT, of the paper and of tensor2tensor."""
    presets = ("paper", "t2t_v1", "t2t_v3") if name.startswith("wmt_") else ()
    named = getattr(importlib.import_module(f"configs.{name}"), "VARIANTS", presets)
    return [name, *(f"{name}.py:{variant}" for variant in named)]


def load(name):
    """A config by the name of its file, or NAME.py:VARIANT."""
    return config_files.load_config(f"configs/{name}" + ("" if ".py" in name else ".py"))


VARIANTS = [v for name in CONFIGS if name not in OF_A_RUN for v in variants(name)]


@pytest.mark.parametrize("name", VARIANTS)
def test_configs(name):
    """All have the keys of their task, and values that can be overridden.

    Another architecture, optimizer or schedule than the task's default has keys of its own.
    """
    config = load(name)
    key_tables.check(config)
    flat, needed = key_tables.flatten(config), key_tables.flatten(key_tables.task_table(config)[0])
    defaults = key_tables.flatten(config_files.default_config(config.task))
    chosen = [key for key in key_tables.CHOICES if flat[key] != defaults[key]]
    own = tuple(f"{key_tables.CHOICES[key]}." for key in chosen)
    new = {key for key in flat.keys() - needed.keys() if not key.startswith(own)}
    assert not new, f"configs/{config.task}.py, with all keys of the task, has to have {new}, too"
    for key, value in flat.items():
        assert type(value) in (int, float, bool, str, tuple), f"config.{key}={value!r}"
        assert type(value) is type(needed.get(key, value)), f"config.{key}={value!r}"
    config.train.num_steps = 12_345  # a decay ends with the run, or it would go on at a rate of 0
    assert config.optimizer.schedule.get("decay_steps", 12_345) == 12_345


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_says_how_to_run_it(name):
    text = ast.get_docstring(ast.parse((ROOT / "configs" / f"{name}.py").read_text()))
    command = f"python launch.py --config=configs/{name}.py"
    assert command in (text or ""), f"the docstring of configs/{name}.py has to have: {command}"


def test_the_keys_of_all_transformers_are_the_options_of_their_layers():
    options = {field.name for field in dataclasses.fields(layer_options.LayerOptions)}
    assert _layers.KEYS.keys() == {f"model.{name}" for name in options | {"dtype"}}


@pytest.fixture(scope="module")
def code():
    """What the code reads: pairs (config, train), (train, seed) of attributes; sections passed on
    as a whole; and the names of parameters, fields and `options`, and strings."""
    pairs, whole, names = set(), set(), set()
    for path in (ROOT / "launch.py", *ROOT.glob("transformer/**/*.py")):
        tree = ast.parse(path.read_text())
        docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        bases = {node.value for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        for node in ast.walk(tree):
            match node:
                case ast.Attribute(ast.Name(base) | ast.Attribute(attr=base), name, ast.Load()):
                    pairs.add((base, name))
                    names |= {name} if base == "options" else set()
                    whole |= {name} if base == "config" and node not in bases else set()
                    whole |= {base} if name == "to_dict" else set()
                case ast.arg(name) | ast.AnnAssign(ast.Name(name)):
                    names.add(name)
                case ast.Constant(str(text)) if node not in docstrings:
                    names.add(text)
    return pairs, whole, names


@pytest.mark.parametrize("task", registry.TASKS)
def test_every_key_is_read(task, code):
    """As config.train.seed, as "train.seed", or by name where its section is passed on; optax has
    the rest of the optimizer's, and a model has fields."""
    pairs, whole, names = code
    for key in key_tables.flatten(config_files.default_config(task)):
        *sections, name = ["config", *key.split(".")]
        named = key in names or (sections[-1] in whole and name in names)
        optax = key.startswith(("optimizer.arguments.", "optimizer.schedule."))
        assert (sections[-1], name) in pairs or named or optax or "model" in sections, key


@pytest.mark.parametrize("name", slow_but(VARIANTS, "wmt_base", "multi30k", "small_text"))
def test_every_config_can_work(name):
    prepare.check(load(name))


PAPER = {
    "architecture": "transformer",
    "data.max_length": 128,
    "data.batch_tokens": 25_000,
    "data.pack": True,
    "vocabulary.shared": True,
    "vocabulary.kind": "bpe",
    "model.num_layers": 6,
    "model.key_size": 0,
    "model.value_size": 0,
    "model.mixer": "attention",
    "model.score": "scaled_dot",
    "model.residual": "post",
    "model.final_norm": False,
    "model.norm": "layer",
    "model.positions": "interleaved",
    "model.tied_embeddings": "all",
    "model.feed_forward": "relu",
    "model.attention_bias": False,
    "model.attention_dropout_rate": 0.0,
    "model.activation_dropout_rate": 0.0,
    "loss.label_smoothing": 0.1,
    "loss.smoothed_over": "all_classes",
    "optimizer.schedule.warmup_steps": 4000,
    "optimizer.schedule.factor": 1.0,
    "optimizer.arguments.b1": 0.9,
    "optimizer.arguments.b2": 0.98,
    "optimizer.arguments.eps": 1e-9,
    "optimizer.clip_norm": 0.0,
    "parallel.strategy": "pmap",
    "evaluate.weights": "average",
    "decode.beam_width": 4,
    "decode.method": "beam",
    "decode.length_penalty": "gnmt",
    "decode.length_alpha": 0.6,
    "decode.stopping": "best",
    "decode.extra_length": 50,
}

BASE = {
    "model.d_model": 512,
    "model.d_ff": 2048,
    "model.num_heads": 8,
    "model.dropout_rate": 0.1,
    "train.num_steps": 100_000,
    "train.save_every": 1500,
    "evaluate.average_last": 5,
}

BIG = {
    "model.d_model": 1024,
    "model.d_ff": 4096,
    "model.num_heads": 16,
    "model.dropout_rate": 0.3,
    "train.num_steps": 300_000,
    "train.save_every": 600,
    "evaluate.average_last": 20,
}

ENDE = {
    "data.corpus": "wmt14_translate/de-en",
    "data.source_language": "en",
    "data.target_language": "de",
    "vocabulary.size": 37_000,
}

ENFR = {
    "data.corpus": "wmt14_translate/fr-en",
    "data.source_language": "en",
    "data.target_language": "fr",
    "vocabulary.size": 32_000,
}

V1 = {
    "model.positions": "concatenated",
    "loss.smoothed_over": "wrong_classes",
    "decode.extra_length": 100,
}

V3 = V1 | {
    "model.residual": "pre",
    "model.final_norm": True,
    "model.attention_dropout_rate": 0.1,
    "model.activation_dropout_rate": 0.1,
    "optimizer.schedule.factor": 2.0,
    "optimizer.schedule.warmup_steps": 8000,
    "optimizer.arguments.b2": 0.997,
}

WMT = {
    "wmt_base": BASE | ENDE,
    "wmt_big": BIG | ENDE,
    "wmt_enfr_base": BASE | ENFR,
    "wmt_enfr_big": BIG | ENFR | {"model.dropout_rate": 0.1},
}


@pytest.mark.parametrize("name", WMT)
@pytest.mark.parametrize(("preset", "changes"), [("paper", {}), ("t2t_v1", V1), ("t2t_v3", V3)])
def test_golden_presets(name, preset, changes):
    if (name, preset) == ("wmt_enfr_big", "t2t_v3"):  # tensor2tensor's transformer_big_enfr
        changes = changes | {"model.d_ff": 8192, "model.tied_embeddings": "none"}
    flat = key_tables.flatten(load(f"{name}.py:{preset}"))
    expected = PAPER | WMT[name] | changes
    assert {key: flat[key] for key in expected} == expected
    if preset == "paper":
        assert key_tables.flatten(load(name)) == flat
    else:  # a preset changes what it is said to change and nothing else
        paper = key_tables.flatten(load(name))
        assert {key for key in flat if flat[key] != paper[key]} == changes.keys()
