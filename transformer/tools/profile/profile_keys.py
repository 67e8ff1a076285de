"""The keys that only --mode=profile reads."""

KEYS = {
    # Steps to trace, after ten others, the first of which compile.
    "profile.steps": [3, "at least 1"],
}
