"""Checks config.decode before anything is compiled."""

from transformer.decoding import beam_search, mbr
from transformer.errors import UserError, check_values

METHODS = ("beam", "sample", "mbr")
RULES = {
    "method": METHODS,
    "length_penalty": beam_search.PENALTIES,
    "stopping": beam_search.STOPPING,
    "utility": mbr.UTILITIES,
    "beam_width": "at least 1 and below 2^31",
    "num_hypotheses": "at least 1 and below 2^31",
    "num_samples": "at least 1 and below 2^31",
    "batch_tokens": "at least 1 and below 2^31",
    "chunk_lines": "at least 1 and below 2^31",
    "length_alpha": "at least 0 and below 2^31",
    "top_k": "at least 0 and below 2^31",
    "seed": "at least 0 and below 2^31",
    "min_length": "at least 0 and below 2^31",
    "extra_length": "at least 1 and below 2^31",
    "max_length": "at least 16 and below 2^31",
    "workers": "at least 0 and below 2^31",
    "temperature": "above 0 and at most 1000",
    "top_p": "above 0 and at most 1",
}


def check(options: dict[str, int | float | str]) -> None:
    """Raises UserError for a wrong value; `options` has all keys of configs/translation.py."""
    check_values("decode", options, RULES)
    limit = {"beam": "beam_width", "mbr": "num_samples"}.get(options["method"])
    if limit and options["num_hypotheses"] > options[limit]:
        raise UserError(
            f"config.decode.num_hypotheses={options['num_hypotheses']} must be at most "
            f"config.decode.{limit}={options[limit]}"
        )
