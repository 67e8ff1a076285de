"""The keys that only --mode=profile reads."""

KEYS = {
    # Steps to trace, after ten warm-up steps.
    "profile.steps": [3, "at least 1"],
}
