"""The keys that only --mode=calibrate reads."""

KEYS = {
    "calibrate.quality": 50.0,  # a translation is good from this chrF of the sentence on
    # File of a number for each line of the validation text, such as a judge's, instead of chrF.
    "calibrate.scores": "",
}
