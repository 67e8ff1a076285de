"""What the steps of the tour share: a few sentences, their pieces and batch, and the training."""

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import flax.linen as nn
import jax
import numpy as np

from configs import (
    image_classification,
    language_modelling,
    masked_language,
    multi30k_rnn,
    translation,
)
from transformer.data import pairs, tokenizer
from transformer.data.tokenizer import Pieces, learn_pieces
from transformer.models import fields as model_fields
from transformer.tasks import losses
from transformer.tasks.task import init_params
from transformer.training import optimizer, update
from transformer.training.update import init_state

Tree = Any
SUBJECTS = {"나는": "I", "너는": "you", "우리는": "we", "그들은": "they"}
OBJECTS = {
    **{"사과를": "apples", "빵을": "bread", "책을": "books"},
    **{"음악을": "music", "커피를": "coffee", "고양이를": "cats"},
}
VERBS = {"좋아해": "like", "싫어해": "dislike", "사랑해": "love", "원해": "want"}
HELD_OUT = ("나는 사과를 좋아해", "I like apples")
MEALS = {
    "먹어": ("사과를", "빵을", "밥을"),
    "읽어": ("책을", "신문을", "편지를"),
    "마셔": ("물을", "커피를", "우유를"),
}
SMALL = {
    **{"d_model": 32, "d_ff": 64, "num_heads": 2, "num_layers": 1, "dropout_rate": 0.0},
    **{"attention_dropout_rate": 0.0, "activation_dropout_rate": 0.0, "max_positions": 64},
}
LOSS = {"label_smoothing": 0.0, "smoothed_over": "all_classes", "blocks": 1}


def sentence_pairs() -> list[tuple[str, str]]:
    """Returns 95 sentence pairs of 14 words: subject, object, verb, but for HELD_OUT."""
    phrases = itertools.product(SUBJECTS, OBJECTS, VERBS)
    every = [(f"{s} {o} {v}", f"{SUBJECTS[s]} {VERBS[v]} {OBJECTS[o]}") for s, o, v in phrases]
    return [pair for pair in every if pair != HELD_OUT]


def clauses() -> list[tuple[str]]:
    """Returns 36 Korean sentences whose verb, the last word, decides which objects there are."""
    objects = [f"{o} {verb}" for verb, objects in MEALS.items() for o in objects]
    return [(f"{subject} {o}",) for subject in SUBJECTS for o in objects]


def vocabulary(sentences: Sequence[tuple[str, ...]], size: int = 480) -> Pieces:
    """Returns a SentencePiece vocabulary, learnt from the sentences; their words are its pieces."""
    texts = itertools.chain.from_iterable(sentences)
    model = learn_pieces(texts, size=size, kind="bpe", character_coverage=1.0)
    return tokenizer.load(model, "the tour's vocabulary")


def next_tokens(pieces: Pieces, sentences: Sequence[tuple[str]]) -> dict[str, np.ndarray]:
    """Returns what a model of one text predicts from what: `targets`, and `tokens` before them."""
    targets = np.array(pieces.encode([text for (text,) in sentences]), np.int32)
    tokens = np.roll(targets, 1, axis=1)
    tokens[:, 0] = tokenizer.START
    positions = np.broadcast_to(np.arange(targets.shape[1], dtype=np.int32), targets.shape)
    return {"targets": targets, "tokens": tokens, "positions": positions}


def names(pieces: Pieces, ids: Iterable[int]) -> list[str]:
    """Returns the text of each id; SentencePiece writes the space before a word as U+2581."""
    return [pieces.processor.id_to_piece(int(i)).lstrip("\u2581") for i in ids]


def batch(source: list[list[int]], target: list[list[int]], length: int = 0) -> dict:
    """Returns one batch of sentence pairs, ids that end with END, a pair a row, padded."""
    padded = lambda ids: tokenizer.padded(ids, len(ids), max(length, *map(len, ids)))
    source, target = padded(source), padded(target)
    weights = (target != tokenizer.PAD).astype(np.float32)
    inputs = pairs.inputs_of_single_pairs(source, target)
    return {"inputs": inputs, "targets": target, "weights": weights}


def batch_of(pieces: Pieces, sentences: Sequence[tuple[str, str]]) -> dict:
    """Returns one batch of all these sentence pairs."""
    return batch(*(pieces.encode(side) for side in zip(*sentences, strict=True)))


def transformer(vocab_size: int, **changes: Any) -> nn.Module:
    """Returns the paper's model, with everything small."""
    fields = {**translation.get_config().model.to_dict(), **SMALL, **changes}
    sizes = {"source_vocab_size": vocab_size, "target_vocab_size": vocab_size}
    return model_fields.build("transformer", fields, **sizes)


@functools.cache
def translator() -> tuple[Pieces, nn.Module, Tree, list[dict]]:
    """Trains the Transformer of step 1; returns its pieces, it, its params and its metrics."""
    sentences = sentence_pairs()
    pieces = vocabulary(sentences)
    model = transformer(len(pieces))
    batches = itertools.repeat(batch_of(pieces, sentences))
    return pieces, model, *train(model, batches, steps=150)


def language_model(vocab_size: int, **changes: Any) -> nn.Module:
    """Returns a small GPT: causal, each token sees those before it."""
    fields = {**language_modelling.get_config().model.to_dict(), **SMALL, **changes}
    return model_fields.build("language_model", fields, vocab_size=vocab_size)


def masked_language_model(vocab_size: int, **changes: Any) -> nn.Module:
    """Returns a small BERT: each token sees all tokens of its text."""
    config = masked_language.get_config()
    fields = {**config.model.to_dict(), **SMALL, **changes}
    sizes = {"vocab_size": vocab_size, "mask_share": config.data.mask_share}
    return model_fields.build("masked_language_model", fields, **sizes)


def vision_transformer(num_classes: int, image_size: int, patch_size: int) -> nn.Module:
    """Returns a small ViT for images of one channel."""
    size = {"d_model": 48, "d_ff": 96, "num_heads": 4, "num_layers": 2}
    fields = {**image_classification.get_config().model.to_dict(), **SMALL, **size}
    del fields["max_positions"]
    fields |= {"patch_size": patch_size, "position_grid": image_size // patch_size}
    fields |= {"mean": (0.3,), "std": (0.2,)}
    sizes = {"num_classes": num_classes, "image_size": image_size}
    return model_fields.build("vision_transformer", fields, **sizes)


def recurrent(vocab_size: int, attention: str, d_model: int, **changes: Any) -> nn.Module:
    """Returns a GRU encoder and decoder, with this attention of multi30k_rnn.py or 'none'."""
    fields = {**multi30k_rnn.get_config(attention).model.to_dict(), "d_model": d_model}
    fields |= {"dropout_rate": 0.0, **changes}
    sizes = {"source_vocab_size": vocab_size, "target_vocab_size": vocab_size}
    return model_fields.build("recurrent", fields, **sizes)


def train(
    model: nn.Module,
    batches: Iterable[dict],
    *,
    steps: int,
    rate: float = 3e-3,
    loss: Callable | None = None,
) -> tuple[Tree, list[dict]]:
    """Trains with Adam; returns the params and the metrics of each step, means per weight."""
    batches = itertools.islice(batches, steps)
    first = next(batches)
    schedule = optimizer.make_schedule(
        "warmup_cosine_decay_schedule",
        **{"init_value": 0.0, "peak_value": rate},
        **{"warmup_steps": steps // 10, "decay_steps": steps},
    )
    adam = optimizer.make_optimizer(schedule, name="adam", clip_norm=1.0, arguments={"b2": 0.98})
    init = jax.jit(functools.partial(init_params, model, first))
    state = init_state(init(jax.random.key(0)), adam)
    step = functools.partial(
        update.train_step,
        loss=loss or functools.partial(losses.token_loss, model=model, **LOSS),
        **{"optimizer": adam, "schedule": schedule, "seed": 0, "accumulate": 1},
    )
    step, history = jax.jit(step), []
    for content in itertools.chain([first], batches):
        state, metrics = step(state, content)
        history.append(metrics)
    means = lambda sums: {name: float(x / sums["weight"]) for name, x in sums.items()}
    return state.params, [*map(means, jax.device_get(history))]
