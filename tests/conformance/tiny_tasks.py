"""A tiny config of each task of the registry, on a corpus that is written for it.

A task of your own needs a function (folder) -> config in TINY, which writes a corpus into the
folder. It begins with what configs/TASK.py has.
"""

from helpers import reversal

from transformer.workdir import config_files

RUN = {"train.num_steps": 2, "train.save_every": 2, "train.log_every": 1, "evaluate.every": 2}
RUN |= {"evaluate.weights": "latest", "evaluate.average_last": 1, "compilation_cache": ""}
LAYERS = {"model.d_model": 16, "model.d_ff": 24, "model.num_heads": 2, "model.num_layers": 1}


def config(task, folder):
    """Returns the tiny config of a task, without dropout: devices do not draw the same."""
    values = TINY[task](folder).copy_and_resolve_references()
    rates = [f"model.{key}" for key in values.model if key.endswith("dropout_rate")]
    data_dir = {"data.data_dir": str(folder / "data")} if "data_dir" in values.data else {}
    values.update_from_flattened_dict({**RUN, **dict.fromkeys(rates, 0.0), **data_dir})
    return values


def changed(task, values):
    """Returns the config of configs/TASK.py with these values."""
    defaults = config_files.default_config(task).copy_and_resolve_references()
    defaults.update_from_flattened_dict(values)
    return defaults


def translation(folder):
    for seed, (split, count) in enumerate((("train", 80), ("validation", 8), ("test", 8))):
        lines = reversal.sentences(count, seed, shortest=9)  # one length to compile
        for language, side in (("de", lines), ("en", map(reversal.reverse, lines))):
            (folder / f"{split}.{language}").write_text("".join(f"{line}\n" for line in side))
    values = {"data.corpus": "parallel_text", "data.directory": str(folder)}
    values |= {"data.max_length": 16, "data.row_length": 32, "data.batch_tokens": 8 * 32}
    values |= {"vocabulary.size": 277, "decode.beam_width": 2, "decode.extra_length": 2}
    return changed("translation", {**LAYERS, **values, "evaluate.samples": 1})


def language_modelling(folder):
    from families.language_model import language

    language.write_text(folder)
    return language.config(folder)


def classification(folder):
    from families.texts import reviews

    reviews.write(folder)
    return reviews.config(folder, "")


def masked_language(folder):
    from families.texts import reviews

    reviews.write(folder)
    files = {"data.train": "train.tsv", "data.validation": "validation.tsv", "data.labelled": True}
    values = {"data.directory": str(folder), "data.max_length": 32, "data.batch_tokens": 512}
    values |= {"vocabulary.size": 300, "model.max_positions": 32}
    return changed("masked_language", {**LAYERS, **files, **values})


def image_classification(folder):
    from families.images import miniature_images

    for stem, count in (("train", 40), ("test", 9)):
        miniature_images.write_idx(folder, stem, *miniature_images.patterns(count))
    values = {"data.corpus": "own_images", "data.directory": str(folder), "data.channels": 1}
    values |= {"data.train": "train[:32]", "data.validation": "train[32:]", "data.test": "test"}
    values |= {"data.size": 8, "data.padding": 1, "data.min_area": 0.0, "data.batch_images": 12}
    values |= {"model.patch_size": 4, "model.position_grid": 2}
    values |= {"model.mean": (0.5,), "model.std": (0.5,)}
    return changed("image_classification", {**LAYERS, **values})


def memory(folder):
    del folder  # nothing is read
    values = {"data.symbols": 6, "data.min_length": 2, "data.max_length": 6}
    values |= {"data.batch_tokens": 8 * 12, "data.test_lengths": (4, 6, 8), "data.test_items": 5}
    return changed("memory", {**LAYERS, **values, "evaluate.batch_tokens": 40})


def parsing(folder):
    from families.parsing import generated

    generated.write(folder, train=200, dev=8)
    values = {"data.directory": str(folder), "data.test": "", "evaluate.samples": 1}
    values |= {"data.max_length": 96, "data.row_length": 96, "data.batch_tokens": 8 * 96}
    values |= {"vocabulary.size": 290, "decode.beam_width": 2, "decode.extra_length": 60}
    return changed("parsing", {**LAYERS, **values})


TINY = {
    "translation": translation,
    "language_modelling": language_modelling,
    "classification": classification,
    "masked_language": masked_language,
    "image_classification": image_classification,
    "memory": memory,
    "parsing": parsing,
}
