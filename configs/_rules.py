"""The keys of config.decode that only families/rules reads."""

KEYS = {
    # File of TERM<tab>TRANSLATION for decode.method='terminology'; "": the terms of requests only.
    "decode.terms": "",
    "decode.groups": [4, "at least 1"],  # of beams, for 'diverse'
    # For 'diverse': how far log P of a token falls for each beam that another group gave it.
    "decode.diversity": [0.5, "at least 0"],
}
