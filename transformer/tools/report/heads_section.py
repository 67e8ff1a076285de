"""The section on heads: those that follow a relation between words (paper, figures 3 to 5).

A head follows a relation as often as a word attends most to one to which it has the relation. The
weight between two words is the mean over the pieces of the first, and the sum over those of the
second (Clark et al. 2019).
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from transformer.data.tokenizer import Vocabulary, tagged
from transformer.tasks import attention_weights, vocabularies
from transformer.tasks.saved_model import SavedModel
from transformer.tools.pages import attention_view
from transformer.tools.pages.attention_view import KINDS, Example, Map
from transformer.tools.pages.page import Section, Table
from transformer.tools.report.inside import MAX_CHARACTERS, Inside

SENTENCES = 400  # or up to twice as many, because every n-th of the test set is read
FAR = 3  # words from an object back to its verb, at least
OFFSETS = range(-8, 9)  # of the baseline, from a word to the one it attends to
AFTER_A_NOUN = ("PP", "SBAR", "VP", "S", "PRN")  # labels
ABOUT = (
    "The head of the encoder that best follows each relation between words of the source. Its "
    "accuracy is how often a word attends most to a word that has the relation to it. The baseline "
    "attends to a fixed offset. Head and offset are the best on half of the sentences, and their "
    "accuracy is that on the other half. Below, each head in the sentence that shows it best."
)
FAR_VERB = "the verb, three words or more before its object"


class Read(NamedTuple):
    """A sentence that the model has read. Its V = W + 1 keys are W words and the end symbol."""

    words: list[str]
    related: dict[str, np.ndarray]  # {relation: bool [W, V]}
    weights_LHWV: np.ndarray


def section(loaded: Inside) -> Section | None:
    """Returns the heads of an encoder's self-attention; None for a model without it."""
    sentences = list(_read(loaded)) if hasattr(loaded.model, "source_vocab_size") else []
    if len(sentences) < 2:
        return None
    L, H, *_ = sentences[0].weights_LHWV.shape
    rows, examples = [], []
    for name in dict.fromkeys(name for x in sentences for name in x.related):
        chosen, tested = (followed(half, name) for half in (sentences[::2], sentences[1::2]))
        if not (chosen.size and tested.size):
            continue
        tested_C, chosen_C = tested.mean(axis=1), chosen.mean(axis=1)
        # The first L * H choices are heads.
        head, offset = chosen_C[: L * H].argmax(), chosen_C[L * H :].argmax()
        layer, number = divmod(int(head), H)
        place = f"layer {layer + 1}, head {number + 1}"
        accuracies = tested_C[head], tested_C[L * H + offset]
        rows.append([name, place, *accuracies, OFFSETS[offset], tested.shape[1]])
        examples.append(Example(f"{name}: {place}", [_map(sentences, name, layer, number)]))
    columns = ["relation", "head", "accuracy", "fixed-offset baseline", "offset", "words"]
    return Section("Heads", [ABOUT, Table(columns, rows), attention_view.view(examples)])


def _read(loaded: Inside) -> Iterator[Read]:
    """Yields sentences of the test set, evenly spaced, as the encoder reads them."""
    vocabulary = vocabularies.read(loaded.run.workdir, loaded.run.config)
    pieces = getattr(vocabulary, "source", vocabulary)
    # The target is the end symbol alone, which all vocabularies have.
    run = SavedModel(loaded.model, loaded.params, [], 0, Vocabulary(pieces, pieces))
    tag = loaded.run.config.decode.tag
    first = int(bool(tag))  # a tag is read, but no word of the sentence
    for item in loaded.items[:: max(1, len(loaded.items) // SENTENCES)]:
        words, tree = item["input"].split(), None
        if loaded.run.config.task == "parsing":
            from transformer.families.parsing import trees

            tree = trees.from_text(item["reference"])
            words = list(tree.words)
        arrays = attention_weights.pair_weights(run, tagged(tag, item["input"]), "")
        if "encoder" not in arrays:
            return
        begins = [piece.startswith("▁") for piece in arrays["source"][:-1]]
        if len(words) < 2 or not begins[0] or sum(begins) != first + len(words):
            continue  # the vocabulary has other words, such as characters
        related = surface_relations(words) | ({FAR_VERB: far_verbs(tree)} if tree else {})
        numbers = np.cumsum(begins) - 1
        yield Read(words, related, between_words(arrays["encoder"], numbers)[:, :, first:, first:])


def between_words(weights_LHSS: np.ndarray, numbers: Sequence[int]) -> np.ndarray:
    """Returns weights [L, H, W, V] between words, for the word's number of each piece but the last.

    Example: [0, 1, 1] for the pieces 'the', 'c', 'at', and the end symbol after them.
    """
    W = numbers[-1] + 1
    belongs_SV = np.eye(W + 1)[[*numbers, W]]
    mean_SV = belongs_SV / belongs_SV.sum(axis=0)
    return np.einsum("su,lhst,tv->lhuv", mean_SV, weights_LHSS, belongs_SV)[:, :, :W]


def followed(sentences: Sequence[Read], relation: str) -> np.ndarray:
    """Returns whether a choice follows a relation, [L * H + OFFSETS, words that have it]."""
    columns = []
    for read in sentences:
        related_WV = read.related[relation]
        W = len(related_WV)
        keys_HW = read.weights_LHWV.argmax(axis=-1).reshape(-1, W)
        keys_DW = np.arange(W) + np.array(OFFSETS)[:, None]
        keys_CW = np.concatenate([keys_HW, np.where(keys_DW >= 0, keys_DW, W + 1)])
        # Key W + 1 and those after it do not exist.
        padded = np.pad(related_WV, ((0, 0), (0, W + len(OFFSETS))))
        columns.append(padded[np.arange(W), keys_CW][:, related_WV.any(axis=1)])
    return np.concatenate(columns, axis=1)


def _map(sentences: Sequence[Read], relation: str, layer: int, head: int) -> Map:
    """Returns a head's weights in the sentence where it attends most to a related word."""
    short = [x for x in sentences if len(" ".join(x.words)) <= MAX_CHARACTERS] or sentences
    weight_WV = lambda x: x.weights_LHWV[layer, head] * x.related[relation]
    best = max(short, key=lambda x: weight_WV(x).max())
    shown_11WV = best.weights_LHWV[layer : layer + 1, head : head + 1]
    first = int(weight_WV(best).max(axis=1).argmax())
    keys = [*best.words, "</s>"]
    return Map(KINDS["encoder"], best.words, keys, shown_11WV, first=first)


def surface_relations(words: Sequence[str]) -> dict[str, np.ndarray]:
    """Returns {relation: whether word w has it to key v, bool [W, V]}."""
    W = len(words)
    w_WV, v_WV = np.indices((W, W + 1))
    lower_V = np.array([*(word.lower() for word in words), ""])
    return {
        "the word before": v_WV == w_WV - 1,
        "the word after": (v_WV == w_WV + 1) & (v_WV < W),
        "the same word elsewhere": (lower_V[:W, None] == lower_V) & (v_WV != w_WV),
        "the end of the sentence": v_WV == W,
    }


def far_verbs(tree: Any) -> np.ndarray:
    """Returns whether v is the verb of w's object, FAR words before its head w or more, [W, V].

    In (VP (VBZ eats) (NP (NP (DT a) (JJ green) (NN apple)) (PP ...))) the verb is 'eats', and the
    head is 'apple'.
    """
    W = len(tree.words)
    related_WV = np.zeros((W, W + 1), bool)
    for i, phrase in enumerate(tree.constituents):
        if phrase.label == "VP" and tree.tags[phrase.start].startswith("VB"):
            objects = (j for j in _children(tree, i) if tree.constituents[j].label == "NP")
            for noun in filter(None, (_head(tree, j) for j in objects)):
                related_WV[noun, phrase.start] = noun - phrase.start >= FAR
    return related_WV


def _children(tree: Any, parent: int) -> Iterator[int]:
    """Yields the indices of the constituents directly in another."""
    _, end, stop = tree.constituents[parent]
    for i, part in enumerate(tree.constituents[parent + 1 :], start=parent + 1):
        if part.start >= stop:
            return
        if part.start >= end:
            end = part.stop
            yield i


def _head(tree: Any, phrase: int) -> int | None:
    """Returns the last noun of a phrase before any phrase or clause that follows it."""
    _, start, end = tree.constituents[phrase]
    after = (x.start for x in tree.constituents[phrase + 1 :] if x.label in AFTER_A_NOUN)
    nouns = [w for w in range(start, min([end, *after])) if tree.tags[w].startswith("NN")]
    return nouns[-1] if nouns else None
