"""Hints for mistyped keys of a config: another program's name for a key, or a misspelling."""

import difflib

# Other programs' names for keys. A config has only some of the keys.
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
    "model.feed_forward": "activation activation_function hidden_act",
    "model.residual": "norm_first normalize_before pre_norm",
    "vocabulary.size": "vocab_size vocab",
    "decode.max_length": "max_len max_seq_len seq_len sequence_length block_size",
    "decode.beam_width": "beam beams num_beams beam_size",
    "decode.temperature": "temp",
    "generate.temperature": "temp",
}
FLAGS = ("--config", "--workdir", "--mode")


def hint(name: str, values: dict[str, object]) -> str:
    """Returns '; did you mean X?' with the likely keys of a config, {key: value}; '' without any.

    A key is likely if ALSO_CALLED lists the last part of the name under it; without such keys, if
    its last part has a similar spelling: 'beam_widht' gives config.decode.beam_width.
    """
    typed = _last_part(name.lower().replace("-", "_").strip("_"))
    also_called = [key for key, names in ALSO_CALLED.items() if typed in names.split()]
    # With their values, because the unit may differ from the other program's.
    likely = [f"--config.{key} (now {values[key]})" for key in also_called if key in values]
    if not likely:
        names = [*FLAGS, *(f"--config.{key}" for key in values)]
        nearest = difflib.get_close_matches(typed, map(_last_part, names), 1, 0.7)
        likely = [x for x in names if _last_part(x) in nearest]
        # Several keys may share a last part: 'optimzer.name' is closest to 'optimizer.name'.
        if "." in name:
            likely = difflib.get_close_matches(name, likely, 1, 0.0)
    return f"; did you mean {' or '.join(likely)}?" if likely else ""


def _last_part(name: str) -> str:
    """Returns 'd_model' of '--config.model.d_model', 'workdir' of '--workdir'."""
    return name.rpartition(".")[2].lstrip("-")
