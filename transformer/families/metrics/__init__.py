"""Further scores of a result, as papers report them, by `config.evaluate.scores`.

`published.py` has sacreBLEU's other scores, with intervals, and counts faulty outputs. `paper.py`
has BLEU as the paper counts it. `neural.py` has COMET.
"""
