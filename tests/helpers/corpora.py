"""Small corpora and vocabularies of them."""

import io
import random

import sentencepiece
from ml_collections import ConfigDict

from transformer.data import corpora, tokenizer
from transformer.tasks import vocabularies

SIZE = 312
WORDS = ["the", "cat", "sees", "나는", "사과를", "좋아해", "책을", "읽었어", "너는", "물을", "마셔"]
WORDS += [a + b + c for a in ("ver", "be", "ge") for b in ("lau", "zei", "ko") for c in ("t", "en")]


def text(seed, count=400):
    """Sentences of one alphabet; pieces differ with the seed."""
    chosen = random.Random(seed)
    words = WORDS[:11] + chosen.sample(WORDS[11:], 15)
    return [" ".join(chosen.choices(words, k=chosen.randint(1, 9))) for _ in range(count)]


LENGTH = 24


class Source:
    """Random pairs of words; no two are equal, so that a pair is known by its text."""

    mixture = ()
    encode = staticmethod(corpora.Corpus.encode)

    def __init__(self, seed, count=150, longest=9, blank=()):
        chosen = random.Random(seed)
        self.fingerprint = f"toy-{seed}-{count}-{longest}-{list(blank)}"
        self.reads = 0
        sentence = lambda: " ".join(
            "".join(chosen.choices("abcdef", k=chosen.randint(1, 3)))
            for _ in range(chosen.randint(1, longest))
        )
        pairs = {}
        while len(pairs) < count:
            pairs[sentence(), sentence()] = None
        self.pairs = [list(pair) for pair in pairs]
        for i, side in blank:
            self.pairs[i][side] = ""

    def __len__(self):
        return len(self.pairs)

    def chunks(self, indices=None):
        self.reads += 1
        chosen = self.pairs if indices is None else [self.pairs[i] for i in indices]
        yield tuple([pair[side] for pair in chosen] for side in (0, 1))


def learn(seed, size=290):
    sentences = [sentence for pair in Source(seed).pairs for sentence in pair]
    model = tokenizer.learn_pieces(sentences, size=size, kind="bpe", character_coverage=1.0)
    return tokenizer.load(model, "test")


def sentencepiece_model(sentences, **options):
    """The bytes of a model that SentencePiece's own trainer makes."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_writer=model, minloglevel=2, **options
    )
    return model.getvalue()


def vocabulary(contents, kind="bpe", normalisation=""):
    options = {"kind": kind, "normalisation": normalisation}
    return vocabularies.load(ConfigDict({"vocabulary": options}), contents, "test")


def catalogue(corpus, split, data_dir, source="de", target="en", directory=""):
    folders = {"directory": str(directory), "data_dir": str(data_dir)}
    return corpora.load(corpus, split, (source, target), **folders, key="split")


def generated():
    """A corpus as registry.CORPORA have them: 30 pairs a split."""
    pairs = lambda split: [(f"{split} {i}", f"en {i}") for i in range(30)]
    return ("de", "en"), {split: pairs(split) for split in corpora.SPLITS}


TRAIN = [(f"deutsch {i} ü", f"english {i} 'tis") for i in range(30)]
VALIDATION = [(f"gültig {i}", f"valid {i}") for i in range(4)]
TEST = [(f"prüfen {i}", f"test {i}") for i in range(5)]
GERMAN = ["Ein Haus .", "Zwei Häuser", "", "drei"]
ENGLISH = ["A house .", "two houses", "", "three 🏠"]


def lines(sentences, end="\n"):
    return "".join(sentence + end for sentence in sentences).encode()


def prepared(folder):
    """The files of prepared or incomplete corpora."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [file for file in files if file.name not in (".config", "metadata.json")]
