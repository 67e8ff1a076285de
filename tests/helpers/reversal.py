"""A toy task whose right answers are known, sentences of letters to reverse, and a model that can.

Training to no fault takes ten seconds, once in a test session.
"""

import functools

import jax
import numpy as np
import optax
from flax import serialization
from helpers import shared, tiny

from configs import wmt_base
from transformer.checkpoints import manager
from transformer.data import tokenizer
from transformer.data.tokenizer import learn_pieces
from transformer.models import fields
from transformer.runtime import paths
from transformer.tasks import losses

LETTERS = "abcdefgh"
KOREAN = str.maketrans(LETTERS, "가나다라마바사아")
LONGEST = 15  # letters in a sentence; with its end symbol, 16 ids

DECODE = {"beam_width": 4, "extra_length": 4, "max_length": LONGEST + 1}
DECODE |= {"batch_tokens": 192, "chunk_lines": 100}


def sentences(count, seed, *, shortest=1, longest=LONGEST):
    """Random sentences, such as 'c a a h'."""
    random = np.random.default_rng(seed)
    lengths = random.integers(shortest, longest + 1, count)
    return [" ".join(random.choice(list(LETTERS), length)) for length in lengths]


def reverse(sentence):
    return " ".join(reversed(sentence.split()))


def write_text(folder, **counts):
    """Writes SPLIT.ko and SPLIT.en of so many sentences: letters of Korean, and reversed ones."""
    for seed, (split, count) in enumerate(counts.items()):
        lines = sentences(count, seed)
        korean = (line.translate(KOREAN) for line in lines)
        for language, side in (("ko", korean), ("en", map(reverse, lines))):
            (folder / f"{split}.{language}").write_text("".join(f"{x}\n" for x in side), "utf-8")


@functools.cache
def vocabulary_model():
    """The bytes of a SentencePiece .model with a piece for every letter behind a space."""
    size = 4 + 256 + 1 + 2 * len(LETTERS)  # special, bytes, the space, letters without and with it
    return learn_pieces(sentences(500, seed=0), size=size, kind="bpe", character_coverage=1.0)


@functools.cache
def vocabulary():
    pieces = tokenizer.Pieces(tokenizer.load_processor(vocabulary_model(), "reversal"), "nfc")
    return tokenizer.Vocabulary(pieces, pieces)


def model():
    sizes = dict.fromkeys(("source_vocab_size", "target_vocab_size"), len(vocabulary().source))
    sizes |= {"d_model": 64, "d_ff": 128, "num_heads": 2, "num_layers": 1}
    return tiny.model(**sizes, key_size=0, value_size=0)


def untrained(seed=0, **changes):
    """(model, params): a tiny model over the same vocabulary, with random params."""
    sizes = dict.fromkeys(("source_vocab_size", "target_vocab_size"), len(vocabulary().source))
    net = tiny.model(**sizes, **changes)
    return net, tiny.parameters(net, tiny.unpacked(tiny.pairs())["inputs"], seed)


def ids(lines):
    """Ids of each line, the end symbol last."""
    return vocabulary().source.encode(lines)


def batch(lines):
    """One sentence a row, as data/pairs.py lays it out."""
    pairs = zip(ids(lines), ids(map(reverse, lines)), strict=True)
    rows = tiny.unpacked(pairs, LONGEST + 1, LONGEST + 1)
    rows["inputs"]["target"][:, 0] = tokenizer.START
    return rows


@functools.cache
def parameters():
    """Parameters that reverse every sentence."""
    write = lambda path: path.write_bytes(serialization.to_bytes(trained()))
    path = shared.made_once("reversal", write)
    return serialization.msgpack_restore(path.read_bytes())


def trained(steps=1500):
    net = model()
    adam = optax.adam(optax.warmup_cosine_decay_schedule(0.0, 4e-3, 100, steps), b2=0.98)

    def mean_loss(values, batch):
        logits = net.apply({"params": values}, **batch["inputs"], train=False)
        options = {"label_smoothing": 0.0, "smoothed_over": "all_classes"}
        sums = losses.cross_entropy(logits, batch["targets"], batch["weights"], **options)
        return sums["loss"] / sums["weight"], sums["weight"] - sums["accuracy"]

    # Optimised, unlike the other programs of tests (conftest.py): it runs 1,500 times.
    @functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 1})
    def update(values, state, batch):
        gradient, faults = jax.grad(mean_loss, has_aux=True)(values, batch)
        updates, state = adam.update(gradient, state)
        return optax.apply_updates(values, updates), state, faults

    first = batch(sentences(64, seed=1))["inputs"]
    values = jax.jit(functools.partial(net.init, train=False))(jax.random.key(0), **first)["params"]
    state, faults = adam.init(values), []
    for step in range(steps):
        values, state, count = update(values, state, batch(sentences(16, seed=2 + step)))
        faults.append(float(count))
    assert sum(faults[-100:]) < 3, "the toy task was not learnt"
    return values


def write_workdir(folder, params=None, step=7, keep=1):
    """A run as training would have left it, by default one that can reverse."""
    config, values = wmt_base.get_config(), fields.values(model())
    config.model.update({name: values[name] for name in config.model})
    config.vocabulary.size = len(vocabulary().source)
    config.vocabulary.fingerprint = vocabulary().fingerprint
    config.evaluate.weights = "latest"
    config.decode.update(DECODE)
    config.data.data_dir = str(folder / "nowhere")
    paths.write_file(folder / "config.json", config.to_json().encode())
    paths.write_file(folder / "vocabulary" / "shared.model", vocabulary_model())
    identity = {"vocabulary": vocabulary().fingerprint}
    saved = manager.Checkpoints(folder, keep=keep, every=1, identity=identity, best_is="highest")
    saved.save(step, parameters() if params is None else params, {"count": np.zeros(1)})
    saved.close()
