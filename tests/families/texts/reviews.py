"""A tiny labelled corpus that can be learnt in seconds: its label is which of two words occurs."""

import random

from configs import classification
from transformer import registry

LABELS = ("bad", "good", "odd")


def lines(seed, count):
    """LABEL<tab>TEXT; the label's own word is somewhere among others.

    All texts have 17 to 32 characters with START, so that there is one row length to compile.
    """
    chosen = random.Random(seed)
    texts = []
    for _ in range(count):
        label = chosen.choice(LABELS)
        words = chosen.choices(("film", "so", "the", "a", "이", "was"), k=5)
        words.insert(chosen.randrange(len(words) + 1), f"{label}ly")
        texts.append(f"{label}\t{' '.join(words)}\n")
    return "".join(texts)


def write(folder):
    for split, count in (("train", 320), ("validation", 40), ("test", 50)):
        (folder / f"{split}.tsv").write_text(lines(split, count))


def config(folder, data_dir, defaults=classification, **changes):
    """The defaults of configs/classification.py, or of another, made tiny; {key: value} changed."""
    values = defaults.get_config().copy_and_resolve_references()
    values.update_from_flattened_dict(
        {
            "data.directory": str(folder),
            "data.data_dir": str(data_dir),
            "data.max_length": 32,
            "data.batch_tokens": 1024,
            # Either way a piece is a character; 'characters' is of the language models' family.
            "vocabulary.kind": "characters" if "characters" in registry.VOCABULARIES else "bpe",
            "vocabulary.size": 277,
            "compilation_cache": "",
            **{f"model.{name}": x for name, x in MODEL.items()},
            **{"optimizer.schedule.peak_value": 1e-2, "optimizer.schedule.warmup_steps": 5},
            **{"optimizer.schedule.decay_steps": 40, "train.num_steps": 40},
            **{"train.save_every": 10, "train.log_every": 10, "evaluate.every": 10},
            **changes,
        }
    )
    return values


MODEL = {"d_model": 16, "d_ff": 32, "num_heads": 2, "num_layers": 1, "max_positions": 32}
MODEL |= {"dropout_rate": 0.0, "attention_dropout_rate": 0.0}
