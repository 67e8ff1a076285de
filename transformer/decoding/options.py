"""Checks config.decode before anything is compiled."""

from transformer.decoding import beam_search, mbr
from transformer.errors import UserError

METHODS = ("beam", "sample", "mbr")
CHOICES = {
    "method": METHODS,
    "length_penalty": beam_search.PENALTIES,
    "stopping": beam_search.STOPPING,
    "utility": mbr.UTILITIES,
}
LEAST = {
    **{"beam_width": 1, "num_hypotheses": 1, "num_samples": 1, "batch_tokens": 1, "chunk_lines": 1},
    **{"length_alpha": 0, "top_k": 0, "seed": 0, "min_length": 0, "extra_length": 1, "workers": 0},
    "max_length": 16,
}
MOST = {"temperature": 1000, "top_p": 1}  # and above 0


def check(options: dict[str, int | float | str]) -> None:
    """Raises UserError for a wrong value; `options` has all keys of configs/translation.py."""
    for key, choices in CHOICES.items():
        if options[key] not in choices:
            raise UserError(
                f"config.decode.{key} is one of {', '.join(choices)}, found {options[key]!r}"
            )
    for key, least in LEAST.items():
        if not least <= options[key] < 2**31:  # NaN is refused, too
            raise UserError(
                f"config.decode.{key} is at least {least} and below 2^31, found {options[key]}"
            )
    for key, most in MOST.items():
        if not 0 < options[key] <= most:
            raise UserError(f"config.decode.{key} is above 0, at most {most}, found {options[key]}")
    limit = {"beam": "beam_width", "mbr": "num_samples"}.get(options["method"])
    if limit and options["num_hypotheses"] > options[limit]:
        raise UserError(
            f"config.decode.num_hypotheses={options['num_hypotheses']} is more than "
            f"config.decode.{limit}={options[limit]} finds"
        )
