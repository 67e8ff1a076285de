"""Translators and BatchDecoders of small models, and lines for them."""

from helpers import reversal

from configs import wmt_base
from transformer import registry
from transformer.data import tokenizer
from transformer.decoding.batch_decoder import BatchDecoder, Part
from transformer.decoding.translator import Request, Translator

DECODE = {**wmt_base.get_config().decode.to_dict(), **reversal.DECODE, "workers": 1}
PIECES = reversal.vocabulary().target
METHODS = [name for name in ("beam", "sample") if name in registry.METHODS]


def build(model=None, batch_decoder=None, **changes):
    """A Translator, whose batch_decoder may be a fake one."""
    options = {**DECODE, **changes}
    translator = Translator(model or reversal.model(), reversal.vocabulary(), **options)
    translator.batch_decoder = batch_decoder or translator.batch_decoder
    return translator


def make_batch_decoder(model, **changes):
    return BatchDecoder(model, PIECES, **{**DECODE, **changes})


# Of four lengths, because each is a shape to compile; one line is over-long.
LINES = [
    line
    for length in (3, 7, 11, 15)
    for line in reversal.sentences(5, seed=length, shortest=length, longest=length)
]
LINES = ["a b c", "", *LINES[::-2], "a b c", "d " * 18, *LINES[::2], "  ", "ab"]
FEW = [line for line in LINES if len(line.split()) in (0, 7)]


class Echo:
    """A fake batch_decoder: returns each part's `answer`, its source, and records the parts."""

    def __init__(self, answer=lambda part: [(list(part.source[:-1]), -1.0)]):
        self.answer = answer
        self.seen = []

    def __call__(self, params, parts, report):
        self.seen += parts
        return list(map(self.answer, parts))


def hypotheses_of(untrained, lines, **changes):
    return list(build(untrained[0], **changes).hypotheses(untrained[1], map(Request, lines)))


def parts(*lengths):
    return [Part((*[5] * n, tokenizer.END)) for n in lengths]
