"""The keys of config.translate that only tools/confidence reads."""

KEYS = {
    # True: how sure each translation and each of its words is, after --mode=calibrate.
    "translate.confidence": False,
    # Lines of a lower confidence are flagged.
    "translate.flag_below": [0.5, "at least 0 and at most 1"],
}
