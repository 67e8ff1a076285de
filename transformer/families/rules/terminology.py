"""config.decode.method='terminology': beam search that puts given phrases into the output.

It is dynamic beam allocation (Post and Vilar 2018). A beam's bank is the number of tokens of its
required phrases that it has: those of whole phrases, and of one that it is writing. Example with
W = 4 beams and one phrase of two tokens, "red cat". The candidates are the likeliest continuations,
each beam's best, and for each beam the next token of the phrase. They are chosen from the banks 2,
1, 0 in turn, as long as there are any:

    bank 2    The red cat (-4.1)    red cat is (-6.0)
    bank 1    It is red (-2.9)      A big red (-5.2)
    bank 0    The small dog (-0.7)

The new beams are "The red cat", "It is red", "The small dog", "red cat is". Only a beam with all
phrases may end.
"""

import functools
import re
import unicodedata
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp

from transformer.data.tokenizer import END, PAD, Pieces
from transformer.decoding import beam_search, selection
from transformer.decoding.beam_search import Bounds, Candidates, DecodingState, Step
from transformer.decoding.methods import Decode, Method, Rule, phrase_pattern
from transformer.errors import UserError
from transformer.families.rules.forbidden import BYTE, is_letter, lines_of

Array = jax.Array


def method(decode: Decode, vocabulary: Pieces | None = None) -> Method:
    """Returns the method with the terms of config.decode.terms; UserError for an invalid file."""
    terms = read_terms(decode.terms) if decode.terms else {}
    required = functools.partial(phrases_of, terms)
    made = beam_search.method(decode)
    pieces = vocabulary.pieces(range(len(vocabulary))) if vocabulary else ()
    # A byte may be of a letter.
    continues = tuple(is_letter(x[0]) or bool(BYTE.fullmatch(x)) for x in pieces)
    options = (*made.options, ("continues", continues))
    return made._replace(extend=extend, options=options, required=required)


def read_terms(file: str) -> dict[str, str]:
    """Returns {term: its translation} of a file of TERM<tab>TRANSLATION lines; else UserError."""
    terms = {}
    for number, line in lines_of("terms", file):
        columns = line.split("\t")
        if len(columns) != 2 or not all(column.replace("*", "").strip() for column in columns):
            raise UserError(
                f"{file}, line {number}: expected TERM<tab>TRANSLATION, found {line[:80]!r}"
            )
        terms[columns[0]] = columns[1]
    return terms


def phrases_of(terms: dict[str, str], source: str, further: dict[str, str]) -> Iterable[str]:
    """Returns the translations of the terms that a source text has, without repetition.

    A term is whole words; with * at its end, the beginning of a word: 사과* is in 사과를. Case
    counts. Of terms that overlap the leftmost is taken, and of those the longest. `further` terms
    go before those of the file.
    """
    clean = lambda text: unicodedata.normalize("NFC", " ".join(text.split()))
    given = {clean(term): clean(phrase) for term, phrase in {**terms, **further}.items()}
    stem = lambda term: term.removesuffix("*")
    source = clean(source)
    # A pattern of all terms would take a second for 10,000.
    present = [term for term in given if stem(term) in source]
    present.sort(key=lambda term: (-len(stem(term)), term.endswith("*")))
    pattern = "|".join(f"({phrase_pattern(term)})" for term in present)
    # Group n is term n, counted from 1.
    matches = re.finditer(pattern, source) if present else ()
    return tuple(dict.fromkeys(given[present[match.lastindex - 1]] for match in matches))


def extend(
    step: Step,
    memory: Any,
    bounds: Bounds,
    state: DecodingState,
    *,
    never: tuple[int, ...] = (),
    rules: tuple[Rule, ...] = (),
    rng_B: Array | None = None,
    continues: tuple[bool, ...] = (),
    **options: Any,
) -> DecodingState:
    """Takes one step of a search whose hypotheses have the phrases of bounds.required_BPL.

    A hypothesis lacks a phrase only if no hypothesis of the sentence can have all within
    max_length. Without phrases it is beam search. `continues` says of each piece whether it
    continues a word. Such a piece is forbidden after a phrase with END. `options` are those of
    beam_search.select.
    """
    if bounds.required_BPL is None:
        return beam_search.extend(step, memory, bounds, state, never=never, rules=rules, **options)
    t, (B, W), phrases_BPL = state.t, state.scores_BW.shape, bounds.required_BPL
    is_whole_BP = (phrases_BPL == END).any(axis=2)
    log_probs_BWV, cache = beam_search.next_log_probs(step, memory, bounds, state, never, rules)
    V = log_probs_BWV.shape[-1]
    progress_BWP, is_ended_BWP = progress(state.live_tokens_BWT, t, phrases_BPL, continues)
    lengths_B1P = ((phrases_BPL != PAD) & (phrases_BPL != END)).sum(axis=-1)[:, None]
    place_BWP1 = jnp.minimum(progress_BWP, lengths_B1P - 1)[..., None]
    next_BWP = selection.take_along_axis(phrases_BPL[:, None], place_BWP1, axis=3)[..., 0]
    is_too_early_BW = (progress_BWP < lengths_B1P).any(axis=2)
    is_too_early_BW &= (t < bounds.max_length_B)[:, None]
    is_out_BWV = is_too_early_BW[:, :, None] & (jnp.arange(V) == END)
    if continues:
        ends_BW1 = (is_ended_BWP & is_whole_BP[:, None]).any(axis=2, keepdims=True)
        # But another phrase may go on: "eat" with "ers".
        is_begun_BWP = (progress_BWP > 0) & (progress_BWP < lengths_B1P)
        is_next_BWPV = (next_BWP[..., None] == jnp.arange(V)) & is_begun_BWP[..., None]
        is_out_BWV |= ends_BW1 & jnp.array(continues) & ~is_next_BWPV.any(axis=2)
    log_probs_BWV = jnp.where(is_out_BWV, -jnp.inf, log_probs_BWV)
    live_BW = beam_search.continued_log_probs(state)
    log_probs_BX = (log_probs_BWV + live_BW[:, :, None]).reshape(B, W * V)

    # Candidates, as indices parent * V + token: the likeliest, each beam's best, the phrases' next.
    _, likeliest_BE = selection.likeliest(log_probs_BWV, live_BW, jnp.zeros((B, 1), bool), 2 * W)
    token_BWN = jnp.concatenate([log_probs_BWV.argmax(axis=-1)[..., None], next_BWP], axis=2)
    index_BWN = jnp.arange(W)[:, None] * V + token_BWN
    index_BN = jnp.concatenate([likeliest_BE, index_BWN.reshape(B, -1)], axis=1)
    log_probs_BN = selection.take_along_axis(log_probs_BX, index_BN, axis=1)
    is_same_BNN = jnp.tril(index_BN[:, :, None] == index_BN[:, None], -1)
    log_probs_BN = jnp.where(is_same_BNN.any(axis=2), -jnp.inf, log_probs_BN)
    _, parents_BN, tokens_BNT, ends_BN = beam_search.continuations(log_probs_BN, index_BN, V, state)

    progress_BNP, _ = progress(tokens_BNT, t + 1, phrases_BPL, continues)
    # At max_length all beams end. Those that lack a phrase count only if there are no others.
    is_met_BNP = progress_BNP == lengths_B1P
    is_whole_BN = is_met_BNP.all(axis=2) | ~ends_BN
    is_possible_B1 = (is_whole_BN & (log_probs_BN > -jnp.inf)).any(axis=1, keepdims=True)
    is_possible_B1 |= state.scores_BW[:, :1] > -jnp.inf
    log_probs_BN = jnp.where(is_whole_BN | ~is_possible_B1, log_probs_BN, -jnp.inf)

    # The first W candidates may end, and the first W that do not end live on.
    bank_BN = jnp.where(is_met_BNP, progress_BNP, 0).sum(axis=2)
    bank_BN += jnp.where(is_met_BNP, 0, progress_BNP).max(axis=2)
    ending_BW = allocated(log_probs_BN, bank_BN)[:, :W]
    living_BW = allocated(jnp.where(ends_BN, -jnp.inf, log_probs_BN), bank_BN)[:, :W]
    chosen_BE = jnp.concatenate([ending_BW, living_BW], axis=1)
    gather = lambda x_BN: selection.take_along_axis(x_BN, chosen_BE, axis=1)
    ends_BE, may_end = gather(ends_BN), jnp.arange(2 * W) < W
    log_probs_BE = jnp.where(ends_BE == may_end, gather(log_probs_BN), -jnp.inf)
    tokens_BET = beam_search.take(tokens_BNT, chosen_BE)
    candidates = Candidates(log_probs_BE, gather(parents_BN), tokens_BET, ends_BE)
    return beam_search.select(candidates, cache, state, bounds, **options)


def progress(
    tokens_BWT: Array, t: Array, phrases_BPL: Array, continues: tuple[bool, ...]
) -> tuple[Array, Array]:
    """Returns how far the first t tokens are in each phrase, and whether they end with all of it.

    Progress [B, W, P] is the number of the phrase's tokens from its beginning: all, if the phrase
    is anywhere; otherwise those that the hypothesis ends with. Of "red cat", "a red" has 1, "a red
    dog" 0. A phrase's END stands for the end of a word: no token, or none that `continues`.
    """
    (B, W, T), (_, P, L) = tokens_BWT.shape, phrases_BPL.shape
    lengths_BP1 = (phrases_BPL != PAD).sum(axis=-1, keepdims=True)
    continues_BWT = jnp.array(continues)[tokens_BWT] if continues else jnp.zeros((B, W, T), bool)

    def compare(n: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        agree_BWPT, count_BWPT = carry
        is_token_T = jnp.arange(T) + n < t
        moved_BW1T = lambda x_BWT: jnp.roll(x_BWT, -n, axis=2)[:, :, None]
        phrase_B1P1 = jax.lax.dynamic_slice_in_dim(phrases_BPL, n, 1, axis=2)[:, None]
        is_end_BWPT = (phrase_B1P1 == END) & ~(moved_BW1T(continues_BWT) & is_token_T)
        agree_BWPT &= (moved_BW1T(tokens_BWT) == phrase_B1P1) & is_token_T | is_end_BWPT
        agree_BWPT &= (n < lengths_BP1)[:, None]
        return agree_BWPT, count_BWPT + agree_BWPT

    # From each position on, how many tokens agree before the first that does not.
    begun = jnp.ones((B, W, P, T), bool), jnp.zeros((B, W, P, T), jnp.int32)
    _, count_BWPT = jax.lax.fori_loop(0, L, compare, begun)
    is_whole_BWPT = count_BWPT == lengths_BP1[:, None]
    count_BWPT -= is_whole_BWPT & (phrases_BPL == END).any(axis=2)[:, None, :, None]
    is_last_BWPT = jnp.arange(T) + count_BWPT == t
    progress_BWP = jnp.where(is_whole_BWPT | is_last_BWPT, count_BWPT, 0).max(axis=-1)
    return progress_BWP, (is_whole_BWPT & is_last_BWPT & (count_BWPT > 0)).any(axis=-1)


def allocated(log_probs_BN: Array, bank_BN: Array) -> Array:
    """Returns the indices of candidates in the order of their choice: from each bank in turn.

    A bank's likeliest is its first. Fuller banks go first in each turn.
    """
    order_BN = jnp.argsort(-log_probs_BN, axis=1, stable=True)
    bank_BN = selection.take_along_axis(bank_BN, order_BN, axis=1)
    log_probs_BN = selection.take_along_axis(log_probs_BN, order_BN, axis=1)
    is_before_BNN = jnp.tril(bank_BN[:, :, None] == bank_BN[:, None], -1)
    turn_BN = jnp.where(log_probs_BN > -jnp.inf, is_before_BNN.sum(axis=2), order_BN.shape[1])
    by_turn_BN = jnp.lexsort((-bank_BN, turn_BN), axis=1)
    return selection.take_along_axis(order_BN, by_turn_BN, axis=1)
