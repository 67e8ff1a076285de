"""The keys of config.decode that only families/rules reads."""

KEYS = {
    # File of TERM<tab>TRANSLATION for decode.method='terminology'; "": the terms of requests only.
    "decode.terms": "",
    "decode.forbidden": "",  # file of phrases, one a line, for the rule 'forbidden'
    # Workdir of a language model of the target's pieces, for shallow fusion; "": none.
    "decode.language_model": "",
    "decode.language_model_weight": [0.2, "at least 0"],
    "decode.groups": [4, "at least 1"],  # of beams, for 'diverse'
    # For 'diverse': how far log P of a token falls for each beam that another group gave it.
    "decode.diversity": [0.5, "at least 0"],
}
