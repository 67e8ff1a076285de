"""Trained models as the sections of a report get them, with random params and items by hand."""

from helpers import reversal, tiny, workdirs

from transformer.tools.report.inside import Inside

SOURCES = ["a b c", "d e f g", "h", "b b"]


def of(run, model, params, items):
    """An `Inside` of all these items."""
    columns = run.evaluations[-1].result["columns"] if run and run.evaluations else {}
    return Inside(run, model, params, items, list(range(1, len(items) + 1)), columns)


def translating(folder, **changes):
    """A run of a tiny translation model that was never trained, with the vocabulary of letters."""
    size = len(reversal.vocabulary().source)
    model = tiny.model(source_vocab_size=size, target_vocab_size=size, **changes)
    params = tiny.parameters(model, tiny.unpacked(tiny.pairs())["inputs"])
    decode = {f"decode.{name}": value for name, value in reversal.DECODE.items()}
    options = model.options
    keys = {"positions": options.positions, "d_model": options.d_model, "max_distance": 4}
    options = {f"model.{name}": value for name, value in keys.items()}
    workdirs.write(folder, **decode, **options)
    (folder / "vocabulary").mkdir()
    (folder / "vocabulary" / "shared.model").write_bytes(reversal.vocabulary_model())
    items = [{"input": text, "output": text.upper().lower()[::-1]} for text in SOURCES]
    return of(workdirs.load(folder), model, params, items)
