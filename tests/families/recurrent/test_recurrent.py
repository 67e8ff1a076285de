"""Recurrent: the papers' equations, both directions, and what cannot work."""

import functools

import jax
import numpy as np
import pytest
from conformance import tiny_models
from conformance.tiny_models import recurrent_attention
from helpers import tiny
from helpers.cases import slow_but

from configs.multi30k_rnn import VARIANTS
from transformer.errors import UserError
from transformer.families.recurrent.cells import Cell

CELLS = [
    *(("gru", kind) for kind in VARIANTS),
    *(("lstm", "none"), ("lstm", "dot"), ("rnn", "dot")),
]
KINDS = slow_but(CELLS, *(("gru", "additive"), ("lstm", "dot"), ("gru", "intra")))
ROWS = [[0], [1], [2]]


@functools.partial(tiny.jit, static_argnums=0)
def advance(cell, params, carry, x_D):
    return cell.apply({"params": params}, carry, x_D)


def encoded(cell, params, x_SD, num_layers=2):
    """The memory of one source: each layer's states, read forwards and backwards."""
    for i in range(num_layers):
        directions = []
        for name, order in (("forward_rnn", 1), ("backward_rnn", -1)):
            one = cell(features=4)
            carry, states = one.initialize_carry(jax.random.key(0), (8,)), []
            for x_D in x_SD[::order]:
                carry, state = advance(one, params[f"encoder_{i}"][name]["cell"], carry, x_D)
                states.append(state)
            directions.append(np.array(states)[::order])
        x_SD = np.concatenate(directions, axis=1)
    return x_SD


def expected_logits(cell, variant, params, source, target):
    """The logits [T, V] of one pair, a position after the other, as the papers have them."""
    attention, radius, S = VARIANTS[variant]["attention"], 1, len(source)
    embed = lambda side, ids: params[f"{side}_embedding"]["embedding"][ids]
    memory_SD = encoded(cell, params, embed("source", source))
    last = np.concatenate([memory_SD[-1, :4], memory_SD[0, 4:]])
    initial = lambda name: np.tanh(last @ params[name]["kernel"] + params[name]["bias"])
    if cell.keywords["kind"] == "lstm":
        carries = [(initial(f"first_{i}_0"), initial(f"first_{i}_1")) for i in range(2)]
    else:
        carries = [initial(f"first_{i}") for i in range(2)]
    own, h_D, fed_D = params["decoder"], np.array(carries[-1]).reshape(-1, 8)[-1], np.zeros(8)
    exps, own_states = [], []  # exp(score) of the source, and the decoder's states, so far

    def context(h_D, t):
        s_S, factors_S = np.arange(S), np.ones(S)
        if variant == "monotonic":  # local-m: p_t = t
            factors_S = abs(s_S - min(t, S - 1)) <= radius
        elif variant == "predictive":  # local-p: equations 9 and 10
            place = np.tanh(h_D @ own["place"]["kernel"]) @ own["centre"]["kernel"][:, 0]
            away_S = s_S - S / (1 + np.exp(-place))
            factors_S = (abs(away_S) <= radius) * np.exp(-(away_S**2) / (2 * (radius / 2) ** 2))
        if attention == "location":  # a_t = softmax(W h), of the first three positions
            scores_S = np.append(h_D @ own["location"]["kernel"], np.full(S, -np.inf))[:S]
        elif attention == "additive":  # v . tanh(W h + U k)
            sums_SD = h_D @ own["query"]["kernel"] + memory_SD @ params["keys"]["kernel"]
            scores_S = np.tanh(sums_SD) @ own["score"]["v"][0]
        elif attention == "general":
            scores_S = memory_SD @ (h_D @ own["score"]["w"][0])
        else:
            scores_S = memory_SD @ h_D
        seen_S = np.exp(scores_S) * (factors_S > 0)
        if variant == "intra":  # intra-temporal attention, equations 2 to 5 of Paulus et al.
            exps.append(np.exp(scores_S))
            seen_S = exps[-1] / np.sum(exps[:-1], axis=0) if t else exps[-1]
        return factors_S * seen_S / seen_S.sum() @ memory_SD

    outputs = []
    for t, x_D in enumerate(embed("target", target)):
        read = [x_D]
        if variant == "additive":  # Bahdanau: the state before looks, then the cells read
            read += [context(h_D, t)]
        elif variant not in ("none", "intra"):  # Luong: input feeding
            read += [fed_D]
        h_D = np.concatenate(read)
        for i in range(2):
            carries[i], h_D = advance(cell(features=8), own[f"cell_{i}"], carries[i], h_D)
        output = h_D
        if variant == "additive":
            output = np.tanh(np.concatenate([h_D, *read]) @ own["mix"]["kernel"])
        elif variant != "none":  # equation 5: the cells read, then the state looks
            mixed = [context(h_D, t), h_D]
            if variant == "intra":  # intra-decoder attention, equations 6 to 8 of Paulus et al.
                past_PD = np.array(own_states).reshape(-1, 8)
                exp_P = np.exp(past_PD @ (h_D @ own["past_query"]["kernel"]))
                mixed += [exp_P @ past_PD / exp_P.sum() if t else np.zeros(8)]
                own_states.append(h_D)
            output = fed_D = np.tanh(np.concatenate(mixed) @ own["mix"]["kernel"])
        outputs.append(output @ params["output_embedding"]["embedding"].T)
    return np.array(outputs)


@pytest.mark.parametrize(("cell", "variant"), KINDS)
def test_it_is_a_loop_over_positions(cell, variant):
    case = tiny_models.case("recurrent", cell=cell, **recurrent_attention(variant))
    inputs, _ = case.kind.batch(ROWS, 8)
    logits_BTV = case.logits(inputs)
    for row, (source, target) in enumerate(tiny_models.ITEMS):
        ids = inputs["target"][row, : len(target)]
        cell_type = functools.partial(Cell, kind=cell, forget_bias=0.5)
        expected = expected_logits(cell_type, variant, case.params, source, ids)
        np.testing.assert_allclose(logits_BTV[row, : len(target)], expected, atol=1e-5)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_an_encoder_of_one_direction_knows_no_later_piece(bidirectional):
    case = tiny_models.case("recurrent", bidirectional=bidirectional)
    inputs, _ = case.kind.batch(ROWS, 8)
    source = [inputs[name] for name in case.kind.source]
    other = [np.where(np.arange(source[0].shape[1]) == 2, 5, source[0]), *source[1:]]
    encode = functools.partial(case.model.apply, method="encode", train=False)
    states = [tiny.jit(encode)({"params": case.params}, *side) for side in (other, source)]
    change_S = np.abs(states[0] - states[1])[0].max(axis=-1)
    assert bool(change_S[:2].any()) == bidirectional
    assert change_S[2:4].all()


def test_tied_embeddings_are_one_matrix():
    cases = [tiny_models.case("recurrent", tied_embeddings=tied) for tied in ("all", "none")]
    sizes = [sum(x.size for x in jax.tree.leaves(case.params)) for case in cases]
    assert sizes[1] - sizes[0] == 2 * tiny.VOCABULARY * cases[0].model.d_model


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"input_feeding": True}, "input_feeding=True needs config.model.attention_place='after'"),
        ({"temporal": True, "attention": "none"}, "temporal=True needs config.model.attention, "),
        ({"window": "monotonic", "attention": "none"}, "window='monotonic' needs "),
        ({"d_model": 7}, "d_model must be even and at least 2"),
        ({"tied_embeddings": "all", "target_vocab_size": 14}, "tied_embeddings='all' needs "),
    ],
)
def test_a_value_that_cannot_work_is_one_line(changes, line):
    with pytest.raises(UserError, match=rf"^config\.model\.{line}"):
        tiny_models.case("recurrent", **changes)
