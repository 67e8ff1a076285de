"""Suggests the key that a mistyped name may mean: by its name elsewhere, else by its letters."""

import difflib
from collections.abc import Iterable, Mapping

# {what people type for a key: the keys here, of which a config has some}.
ALSO_CALLED = {
    "lr learning_rate max_lr peak_lr": (
        *("optimizer.schedule.factor", "optimizer.schedule.peak_value", "optimizer.schedule.value"),
    ),
    "lr_schedule lr_scheduler scheduler": ("optimizer.schedule.name",),
    "warmup num_warmup_steps": ("optimizer.schedule.warmup_steps",),
    "batch_size batch bs max_tokens": ("data.batch_tokens", "data.batch_images"),
    "epochs epoch num_epochs max_epochs steps max_steps": ("train.num_steps",),
    "hidden hidden_size hidden_dim embedding_size embed_dim dim n_embd": ("model.d_model",),
    "ffn_dim ff_dim dim_feedforward intermediate_size": ("model.d_ff",),
    "heads n_heads n_head nhead num_attention_heads": ("model.num_heads",),
    "layers n_layers n_layer depth num_hidden_layers": ("model.num_layers",),
    "dropout dropout_prob": ("model.dropout_rate",),
    "max_len max_seq_len seq_len sequence_length block_size": (
        *("data.max_length", "data.context_length", "decode.max_length"),
    ),
    "beam beams num_beams beam_size": ("decode.beam_width",),
    "vocab_size vocab": ("vocabulary.size",),
    "dir folder path data_path": ("data.directory",),
    "grad_clip max_grad_norm clip": ("optimizer.clip_norm",),
    "temp": ("decode.temperature", "generate.temperature"),
}


def did_you_mean_key(name: str, keys: Mapping, flag_names: Iterable[str] = ()) -> str:
    """Returns '; did you mean X?' for the likely keys (with values) or flags, '' if none is likely.

    A key is likely if it is what ALSO_CALLED has for the last part of the name, else if its own
    last part is like it: 'beam_widht' gives config.decode.beam_width.
    """
    prefix = "--config." if flag_names else "config."
    typed = _last_part(name.lower().replace("-", "_"))
    usual = [key for words, meant in ALSO_CALLED.items() if typed in words.split() for key in meant]
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
