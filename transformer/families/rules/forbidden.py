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

from transformer.data.tokenizer import END, PAD, START, UNKNOWN, Pieces, normalised
from transformer.errors import UserError

Array = jax.Array
BYTE = re.compile("<0x..>")
BETWEEN, ALWAYS = 0, 1  # the states in which a word may begin, and every hypothesis


@dataclasses.dataclass(frozen=True)
class Forbidden:
    """An automaton over pieces; its states from 2 on are places inside phrases."""

    edges: tuple[tuple[int, int, int], ...]  # (from state, piece, to state)
    written: tuple[int, ...]  # the states in which a phrase is written
    closing: tuple[tuple[int, int], ...]  # (state, piece), which ends a phrase and its word
    begins_apart: tuple[bool, ...]  # of each piece, whether the word before it ends
    ends_apart: tuple[bool, ...]  # of each piece, whether a word may begin after it
    longest: int  # tokens of the longest phrase, if each is a letter

    def __call__(self, log_probs_BWV: Array, tokens_BWT: Array, t: Array) -> Array:
        """Forbids each token that would make a phrase a whole word."""
        states_BWQ = self._states(tokens_BWT, t)
        is_written_BW1 = states_BWQ[:, :, np.array(self.written)].any(axis=2, keepdims=True)
        is_wrong_BWV = is_written_BW1 & np.array(self.begins_apart)
        state_C, piece_C = np.array(self.closing, int).reshape(-1, 2).T
        is_wrong_BWV = is_wrong_BWV.at[:, :, piece_C].max(states_BWQ[:, :, state_C])
        return jnp.where(is_wrong_BWV, -jnp.inf, log_probs_BWV)

    def _states(self, tokens_BWT: Array, t: Array) -> Array:
        """Returns in which of the Q states each hypothesis is; it can be in several."""
        from_E, piece_E, to_E = np.array(self.edges, int).reshape(-1, 3).T
        B, W, _ = tokens_BWT.shape
        no_BWQ = jnp.zeros((B, W, 1 + max(self.written)), bool).at[:, :, ALWAYS].set(True)
        # Phrases begin at most `longest` tokens ago. Padding stands before the first token.
        padded = jnp.pad(tokens_BWT, ((0, 0), (0, 0), (self.longest, 0)), constant_values=PAD)
        recent_BWL = jax.lax.dynamic_slice_in_dim(padded, t, self.longest, axis=2)
        states_BWQ = no_BWQ.at[:, :, BETWEEN].set(True)
        for n in range(self.longest):
            token_BW = recent_BWL[:, :, n]
            leads_BWE = states_BWQ[:, :, from_E] & (token_BW[:, :, None] == piece_E)
            states_BWQ = no_BWQ.at[:, :, to_E].max(leads_BWE)
            states_BWQ = states_BWQ.at[:, :, BETWEEN].set(jnp.array(self.ends_apart)[token_BW])
        return states_BWQ


def forbidden(vocabulary: Pieces | None, file: str) -> Forbidden:
    """Returns the rule of a file with a phrase a line; UserError if it cannot be read.

    Upper and lower case differ. Letters that the vocabulary spells in bytes are not recognised.
    """
    try:
        lines = Path(file).read_text("utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        raise UserError(f"config.decode.rules: forbidden(file={file!r}): {error}") from error
    phrases = [*dict.fromkeys(" ".join(line.split()) for line in lines if line.strip())]
    if not phrases:
        raise UserError(f"config.decode.rules: {file} must have a phrase a line, found none")
    pieces = [""] * (START + 1)
    if vocabulary:
        phrases = normalised(phrases, vocabulary.normalisation)
        pieces = vocabulary.pieces(range(len(vocabulary)))
    return automaton(phrases, [piece.replace("▁", " ") for piece in pieces])


def automaton(phrases: list[str], pieces: list[str]) -> Forbidden:
    """Returns the rule of phrases, of at least one, for pieces as they stand in a text."""
    is_letter = lambda character: unicodedata.category(character)[0] in "LMN"
    opaque = {PAD, END, UNKNOWN, START} | {i for i, x in enumerate(pieces) if BYTE.fullmatch(x)}
    pieces = ["�" if i in opaque else text for i, text in enumerate(pieces)]
    # {letter: [(piece, n)]} with the letter n of the piece first in it, or after no letter.
    beginning = collections.defaultdict(list)
    for piece, text in enumerate(pieces):
        for n, letter in enumerate(text):
            if n == 0 or not is_letter(text[n - 1]):
                beginning[letter].append((piece, n))
    edges, closing, written = [], [], [ALWAYS]
    for phrase in phrases:
        # The states after 0, 1, 2, ... letters.
        states = [BETWEEN, *range(written[-1] + 1, written[-1] + 1 + len(phrase))]
        written.append(states[-1])
        for done, letter in enumerate(phrase):
            for piece, n in beginning[letter]:
                if n and done:
                    continue  # within a piece, only a phrase's first letter begins
                state, text, rest = ALWAYS if n else states[done], pieces[piece][n:], phrase[done:]
                if rest.startswith(text):
                    edges.append((state, piece, states[done + len(text)]))
                elif text.startswith(rest) and not is_letter(text[len(rest)]):
                    closing.append((state, piece))
    return Forbidden(
        tuple(edges),
        tuple(written[1:]),
        tuple(closing),
        begins_apart=tuple(not is_letter(text[0]) for text in pieces),
        ends_apart=tuple(not is_letter(text[-1]) for text in pieces),
        longest=1 + max(map(len, phrases)),
    )
