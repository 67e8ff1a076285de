"""The rule 'forbidden': phrases that no translation may have as whole words.

A vocabulary spells a word in many ways: "cat" is ▁cat, ▁c at or ▁ca t. Forbidding the pieces of one
spelling lets the search find another, so this rule reads the letters of the pieces. An automaton
over pieces has a state for each place inside a phrase. Example: the phrase "cat", the pieces ▁c, a,
at, t, s:

    after ▁c     state 2: a leads to state 3, at to state 4
    after ▁c a   state 3: t leads to state 4
    in state 4   "cat" is written; a letter may follow (s), but not a space, a full stop or the end
"""

import collections
import dataclasses
import re
import unicodedata
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from transformer.data import text_files
from transformer.data.tokenizer import END, FIRST_PIECE, PAD, START, UNKNOWN, Pieces, normalised
from transformer.decoding.methods import Decode
from transformer.errors import UserError

Array = jax.Array
BYTE = re.compile("<0x..>")
BETWEEN, ALWAYS = 0, 1  # states: a word may begin next; every hypothesis is in this one


@dataclasses.dataclass(frozen=True)
class Forbidden:
    """An automaton over pieces; its states from 2 on are places inside phrases."""

    num_states: int
    edges: tuple[tuple[int, int, int], ...]  # (piece, from state, to state), by piece
    written: tuple[int, ...]  # the states in which a phrase is written, if its word ends
    closing: tuple[tuple[int, int], ...]  # (state, piece) that ends a phrase and its word
    begins_apart: tuple[bool, ...]  # of each piece, whether the word before it ends
    ends_apart: tuple[bool, ...]  # of each piece, whether a word may begin after it
    longest: int  # tokens of the longest phrase, if each is a letter

    def __call__(self, log_probs_BWV: Array, tokens_BWT: Array, t: Array) -> Array:
        """Forbids each token that would make a phrase a whole word."""
        states_BWQ = self._states(tokens_BWT, t)
        is_written_BW1 = states_BWQ[:, :, np.array(self.written, int)].any(axis=2, keepdims=True)
        is_wrong_BWV = is_written_BW1 & np.array(self.begins_apart)
        state_C, piece_C = np.array(self.closing, int).reshape(-1, 2).T
        is_wrong_BWV = is_wrong_BWV.at[:, :, piece_C].max(states_BWQ[:, :, state_C])
        return jnp.where(is_wrong_BWV, -jnp.inf, log_probs_BWV)

    def _states(self, tokens_BWT: Array, t: Array) -> Array:
        """Returns in which of the Q states each hypothesis is; it can be in several."""
        B, W, _ = tokens_BWT.shape
        # The last edge does nothing. Those of piece v are first_V[v], ..., first_V[v + 1] - 1.
        V = len(self.ends_apart)
        piece_E, from_E, to_E = np.array([*self.edges, (V, ALWAYS, ALWAYS)]).T
        first_V = np.searchsorted(piece_E, np.arange(V + 1))
        most = np.arange(np.diff(first_V).max())
        arrays = (first_V, from_E, to_E, self.ends_apart)
        first_V, from_E, to_E, ends_apart_V = map(jnp.array, arrays)
        no_BWQ = jnp.zeros((B, W, self.num_states), bool).at[:, :, ALWAYS].set(True)
        row_B11, beam_W1 = jnp.arange(B)[:, None, None], jnp.arange(W)[:, None]

        def follow(states_BWQ: Array, token_BW: Array) -> tuple[Array, None]:
            edge_BWK = first_V[token_BW][:, :, None] + most
            edge_BWK = jnp.where(edge_BWK < first_V[token_BW + 1][:, :, None], edge_BWK, -1)
            leads_BWK = jnp.take_along_axis(states_BWQ, from_E[edge_BWK], axis=2)
            states_BWQ = no_BWQ.at[row_B11, beam_W1, to_E[edge_BWK]].max(leads_BWK)
            return states_BWQ.at[:, :, BETWEEN].set(ends_apart_V[token_BW]), None

        # Phrases begin at most `longest` tokens ago. Padding stands before the first token.
        padded = jnp.pad(tokens_BWT, ((0, 0), (0, 0), (self.longest, 0)), constant_values=PAD)
        recent_BWL = jax.lax.dynamic_slice_in_dim(padded, t, self.longest, axis=2)
        begun_BWQ = no_BWQ.at[:, :, BETWEEN].set(True)
        return jax.lax.scan(follow, begun_BWQ, jnp.moveaxis(recent_BWL, 2, 0))[0]


def forbidden(vocabulary: Pieces | None, decode: Decode) -> Forbidden:
    """Returns the rule of config.decode.forbidden, a phrase a line.

    UserError for a file that cannot be read or has no phrases, and for a phrase with a letter that
    the vocabulary spells in bytes, because it would not be recognised. Case counts.
    """
    if not (file := decode.forbidden):
        raise UserError("config.decode.rules=forbidden needs config.decode.forbidden=FILE")
    lines = [line for _, line in lines_of("forbidden", file)]
    phrases = [*dict.fromkeys(" ".join(x.split()) for x in lines if x.replace("*", "").strip())]
    if not phrases:
        raise UserError(f"config.decode.forbidden={file!r} must have a phrase a line, found none")
    pieces = [""] * FIRST_PIECE
    if vocabulary:
        phrases = normalised(phrases, vocabulary.normalisation)
        pieces = [x.replace("▁", " ") for x in vocabulary.pieces(range(len(vocabulary)))]
        known = {*" ".join(x for x in pieces if not BYTE.fullmatch(x))}
        if unknown := [phrase for phrase in phrases if {*phrase.removesuffix("*")} - known]:
            raise UserError(f"{file}: {unknown[0]!r} has a letter that is in no piece")
    return automaton(phrases, pieces)


def lines_of(key: str, file: str) -> list[tuple[int, str]]:
    """Returns the lines of the file of config.decode.KEY that are not blank, with their numbers."""
    try:
        numbered = [*enumerate(text_files.lines(Path(file)), start=1)]
    except OSError as error:
        raise UserError(f"config.decode.{key}={file!r} cannot be read: {error}") from error
    return [(number, line) for number, line in numbered if line.strip()]


def is_letter(character: str) -> bool:
    """Returns whether a character, such as a letter, a mark or a digit, is part of a word."""
    return unicodedata.category(character)[0] in "LMN"


def automaton(phrases: list[str], pieces: list[str]) -> Forbidden:
    """Returns the rule of phrases, for pieces as they stand in a text.

    A phrase is whole words, or with * at its end the beginning of a word.
    """
    opaque = {PAD, END, UNKNOWN, START} | {i for i, x in enumerate(pieces) if BYTE.fullmatch(x)}
    pieces = ["\ufffd" if i in opaque else text for i, text in enumerate(pieces)]
    # {letter: [(piece, n)]}: letter n of the piece begins it, or stands after no letter.
    beginning = collections.defaultdict(list)
    for piece, text in enumerate(pieces):
        for n, letter in enumerate(text):
            if n == 0 or not is_letter(text[n - 1]):
                beginning[letter].append((piece, n))
    edges, closing, written, num_states = [], [], [], 2
    for line in phrases:
        is_open = line.endswith("*")
        phrase = line.removesuffix("*")
        # The states after 0, 1, 2, ... letters.
        states = [BETWEEN, *range(num_states, num_states + len(phrase))]
        num_states += len(phrase)
        if not is_open:
            written.append(states[-1])
        for done, letter in enumerate(phrase):
            rest = phrase[done:]
            for piece, n in beginning[letter]:
                if n and done:
                    continue  # within a piece, only a phrase's first letter begins
                text = pieces[piece][n:]
                state = ALWAYS if n else states[done]
                after = text[len(rest) : len(rest) + 1]
                is_end = is_open or (after and not is_letter(after))
                if text.startswith(rest) and is_end:
                    closing.append((state, piece))
                elif rest.startswith(text):
                    edges.append((piece, state, states[done + len(text)]))
    return Forbidden(
        num_states,
        tuple(sorted(edges)),
        tuple(written),
        tuple(closing),
        begins_apart=tuple(not is_letter(text[0]) for text in pieces),
        ends_apart=tuple(not is_letter(text[-1]) for text in pieces),
        longest=1 + max(map(len, phrases)),
    )
