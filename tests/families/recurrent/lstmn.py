"""The LSTMN in numpy, a position after the other."""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstmn_states(own, x_TD):
    """Cheng et al. 2016, equations 4 to 9, with lists in place of tapes."""
    hs, cs, attended = [], [], np.zeros(5)
    for x_D in x_TD:
        memory, before, attended = np.zeros(5), attended, np.zeros(5)
        if hs:
            query = x_D @ own["input"]["kernel"] + before @ own["attended"]["kernel"]
            exp = np.exp(np.tanh(np.array(hs) @ own["key"]["kernel"] + query) @ own["v"])
            attended, memory = (exp @ np.array(tape) / exp.sum() for tape in (hs, cs))
        gates = np.concatenate([attended, x_D]) @ own["gates"]["kernel"] + own["gates"]["bias"]
        i, f, o, new = np.split(gates, 4)
        cs.append(sigmoid(f + 0.5) * memory + sigmoid(i) * np.tanh(new))
        hs.append(sigmoid(o) * np.tanh(cs[-1]))
    return np.array(hs)
