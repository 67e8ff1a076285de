"""--config.KEY=VALUE: sets the keys of a config, and explains each mistake in them.

For a mistyped key, suggests a likely one: by its name in other programs, else by its spelling.
"""

import ast
import difflib
from collections.abc import Iterable, Mapping

from absl import flags
from ml_collections import ConfigDict
from ml_collections.config_flags.tuple_parser import TupleParser

from transformer.errors import UserError
from transformer.registry import MODES, load
from transformer.workdir.config_files import flatten, kind_of

# Parsers of a value's text, by the type of the key's current value; keys have no other types.
PARSERS = {
    bool: flags.BooleanParser(),
    int: flags.IntegerParser(),
    float: flags.FloatParser(),
    str: flags.ArgumentParser(),
    tuple: TupleParser(),
}

# Names that keys have in other programs, as people type them. A config has only some of the keys.
ALSO_CALLED = {
    "optimizer.schedule.factor": "lr learning_rate max_lr peak_lr",
    "optimizer.schedule.peak_value": "lr learning_rate max_lr peak_lr",
    "optimizer.schedule.value": "lr learning_rate max_lr peak_lr",
    "optimizer.schedule.name": "lr_schedule lr_scheduler scheduler",
    "optimizer.schedule.warmup_steps": "warmup num_warmup_steps",
    "optimizer.clip_norm": "grad_clip max_grad_norm clip",
    "data.batch_tokens": "batch_size batch bs max_tokens",
    "data.batch_images": "batch_size batch bs max_tokens",
    "data.max_length": "max_len max_seq_len seq_len sequence_length block_size",
    "data.context_length": "max_len max_seq_len seq_len sequence_length block_size",
    "data.directory": "dir folder path data_path",
    "train.num_steps": "epochs epoch num_epochs max_epochs steps max_steps",
    "model.d_model": "hidden hidden_size hidden_dim embedding_size embed_dim dim n_embd",
    "model.d_ff": "ffn_dim ff_dim dim_feedforward intermediate_size",
    "model.num_heads": "heads n_heads n_head nhead num_attention_heads",
    "model.num_layers": "layers n_layers n_layer depth num_hidden_layers",
    "model.dropout_rate": "dropout dropout_prob",
    "vocabulary.size": "vocab_size vocab",
    "decode.max_length": "max_len max_seq_len seq_len sequence_length block_size",
    "decode.beam_width": "beam beams num_beams beam_size",
    "decode.temperature": "temp",
    "generate.temperature": "temp",
}


def mode_keys(mode: str) -> ConfigDict:
    """Returns the keys that only this mode reads, with their defaults."""
    return load(MODES[mode].keys)() if MODES[mode].keys else ConfigDict()


def override(config: ConfigDict, arguments: list[str], mode: str = "train") -> ConfigDict:
    """Returns the config with the mode's own keys added and --config.KEY=VALUE arguments applied.

    UserError for wrong arguments, or a key that the mode does not have. Any key below
    optimizer.arguments and optimizer.schedule is accepted: optimizer and schedule check their keys
    when they are built. A new optimizer or schedule starts without the config's keys of the old.
    """
    set_mode_keys(config, mode)
    # Names go first, wherever they stand: a new name drops the keys of the old optimizer, and must
    # not drop those of the new one that the command line sets.
    names = ("optimizer.name", "optimizer.schedule.name")
    for argument in sorted(arguments, key=lambda x: key_of(x) not in names):
        key, current = key_of(argument), flatten(config)
        value = value_of(argument, current)
        if key == "optimizer.name" and value != current[key]:
            config.optimizer.arguments = ConfigDict()
        if key == "optimizer.schedule.name" and value != current[key]:
            config.optimizer.schedule = ConfigDict({"name": value})
        config.update_from_flattened_dict({key: value})
    # Locked: from here on a mistyped key raises an error instead of being added.
    return config.lock()


def set_mode_keys(config: ConfigDict, mode: str) -> None:
    """Adds a mode's own keys to a config; UserError if the config has others in their groups.

    A config file may set keys of several modes; the keys of other modes are dropped, so that a run
    keeps only what it reads.
    """
    for name in MODES:
        for group, keys in mode_keys(name).items():
            given = config.get(group, ConfigDict())
            for key in given:
                if key not in keys:
                    hint = did_you_mean_key(f"{group}.{key}", flatten(mode_keys(name)))
                    raise UserError(f"nothing reads config.{group}.{key} of the config{hint}")
            if name == mode:
                keys.update(given)
                config[group] = keys
            elif group in config:
                del config[group]


def value_of(argument: str, current: dict[str, object]) -> object:
    """Returns the value that an argument sets, in the type of its key's current value."""
    key, (_, has_value, text) = key_of(argument), argument.partition("=")
    if key not in current:
        if has_value and key.startswith(("optimizer.arguments.", "optimizer.schedule.")):
            return literal(text)
        for mode in MODES:
            if key in flatten(mode_keys(mode)):
                raise UserError(f"{argument}: config.{key} is read by --mode={mode} only")
        group = [f"config.{k}" for k in current if k.startswith(f"{key}.")]
        keys = f"; its keys are {', '.join(group)}" if group else did_you_mean_key(key, current)
        raise UserError(f"{argument}: there is no key config.{key}{keys}")
    if key.endswith("fingerprint"):
        raise UserError(f"{argument}: config.{key} is a hash of what the run reads: it fills it in")
    value = current[key]
    # absl spells True as --config.KEY and False as --noconfig.KEY.
    if isinstance(value, bool) and not has_value:
        return argument.startswith("--config")
    if not (has_value and argument.startswith("--config")):
        raise UserError(f"{argument}: expected --config.{key}=VALUE, such as {value!r}")
    try:
        return PARSERS[type(value)].parse(text)
    except ValueError as error:
        raise UserError(f"{argument}: config.{key} must be {kind_of(value)}") from error


def literal(text: str) -> object:
    """Returns the number, bool or tuple that a text spells, otherwise the text."""
    try:
        value = ast.literal_eval(text.title() if text.lower() in ("true", "false") else text)
    except (ValueError, SyntaxError):
        return text
    return value if isinstance(value, int | float | tuple) else text


def key_of(argument: str) -> str:
    """Returns the config key that an argument sets: '--noconfig.data.pack' -> 'data.pack'."""
    name = argument.partition("=")[0]
    return name.removeprefix("--no").removeprefix("--").removeprefix("config.")


def did_you_mean_key(name: str, keys: Mapping, flag_names: Iterable[str] = ()) -> str:
    """Returns '; did you mean X?', of the likely keys (with values) or flags; '' without any.

    A key is likely if ALSO_CALLED lists the last part of the name under it, else if its own last
    part resembles it: 'beam_widht' gives config.decode.beam_width.
    """
    prefix = "--config." if flag_names else "config."
    typed = _last_part(name.lower().replace("-", "_"))
    usual = [key for key, names in ALSO_CALLED.items() if typed in names.split()]
    # With their values, which may be in another unit than what was typed.
    likely = [f"{prefix}{key} (now {keys[key]})" for key in usual if key in keys]
    if not likely:
        names = [f"--{flag}" for flag in flag_names] + [prefix + key for key in keys]
        nearest = difflib.get_close_matches(typed, map(_last_part, names), 1, 0.7)
        likely = [x for x in names if _last_part(x) in nearest]
        # Several keys may end alike: 'optimzer.name' is nearer to the optimizer's.
        if "." in name:
            likely = difflib.get_close_matches(name, likely, 1, 0.0)
    return f"; did you mean {' or '.join(likely)}?" if likely else ""


def _last_part(name: str) -> str:
    """Returns 'd_model' of 'config.model.d_model', 'workdir' of '--workdir'."""
    return name.rpartition(".")[2].lstrip("-")
