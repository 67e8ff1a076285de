"""A tiny language model, its text, its config and its workdir."""

import random

import numpy as np
from conformance import tiny_tasks
from helpers import tiny

from configs import language_modelling
from transformer.families.language_model.language_model import LanguageModel
from transformer.models import fields
from transformer.tasks import saved_model, vocabularies
from transformer.workdir import saved_config

LETTERS = " abcdefgh"
ARGUMENTS = {
    **language_modelling.get_config().model,
    **{"vocab_size": 13, "d_model": 16, "d_ff": 24, "num_heads": 2, "num_layers": 2},
    **{"key_size": 6, "value_size": 5, "max_positions": 12, "dropout_rate": 0.0},
}


def model(**changes):
    return fields.make(LanguageModel, **{**ARGUMENTS, **changes})


def parameters(model, seed=0):
    inputs = {name: np.zeros((1, 4), np.int32) for name in ("tokens", "positions", "segments")}
    return tiny.parameters(model, inputs, seed)


def logits(model, params, tokens):
    """The logits behind each of some tokens, which are the beginning of a text."""
    # Padded, so that one program serves all lengths.
    ids = np.zeros((1, 12), np.int32)
    ids[0, : len(tokens)] = tokens
    segments = (np.arange(12) < len(tokens)).astype(np.int32)[None]
    inputs = {"tokens": ids, "positions": np.arange(12)[None], "segments": segments}
    return tiny.logits(model, params, inputs)[0, : len(tokens)]


def write_text(folder, count=60, seed=0):
    """Writes all.txt: random lines of few words."""
    chosen = random.Random(seed)
    words = ["the", "cat", "sees", "a", "dog", "bee"]
    lines = [" ".join(chosen.choices(words, k=chosen.randint(0, 6))) for _ in range(count)]
    (folder / "all.txt").write_text("".join(f"{line}\n" for line in lines))
    return lines


def config(folder, changes=None):
    """The config of a tiny run on the text that `write_text` has written into the folder."""
    config = language_modelling.get_config().copy_and_resolve_references()
    values = {**tiny_tasks.LAYERS, "model.max_positions": 12, "compilation_cache": ""}
    values |= {"data.directory": str(folder), "data.data_dir": str(folder / "data")}
    values |= {"data.train": "all.txt[:80%]", "data.validation": "all.txt[80%:]"}
    values |= {"data.context_length": 12, "data.batch_tokens": 8 * 12}
    values |= {"vocabulary.kind": "characters", "vocabulary.size": 18}
    values |= {"optimizer.schedule.warmup_steps": 2, "optimizer.schedule.decay_steps": 12}
    values |= {"train.num_steps": 12, "train.log_every": 1, "train.save_every": 6}
    values |= {"evaluate.every": 3, "evaluate.batch_tokens": 8 * 12, "evaluate.samples": 0}
    config.update_from_flattened_dict({**values, **(changes or {})})
    return config


def write_run(folder, monkeypatch, config):
    """Writes a workdir; a model of LETTERS with random params is loaded from then on."""
    vocabularies.write(folder, config, {"text.characters": LETTERS.encode()})
    saved_config.write_config(config, folder)
    untrained = model(vocab_size=len(LETTERS) + 4)
    loaded = saved_model.SavedModel(untrained, parameters(untrained), [7], 7)
    monkeypatch.setattr(saved_model, "load", lambda *_: loaded)
