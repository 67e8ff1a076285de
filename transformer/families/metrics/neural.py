"""COMET (Rei et al. 2022), a score by a neural network that has learnt people's judgements."""

from collections.abc import Callable, Sequence

from ml_collections import ConfigDict

from transformer.data.tokenizer import Vocabulary
from transformer.errors import UserError, optional
from transformer.families.metrics.published import Lines

MODEL = "Unbabel/wmt22-comet-da"


def comet(config: ConfigDict) -> Callable:
    """Returns a function that returns 'comet', the mean over sentences, mostly between 0 and 1.

    It compares with the first reference. It runs on CPUs, because JAX has the memory of the
    devices. The model, 2.3 GB, is downloaded now if it is missing. UserError without the package
    unbabel-comet, which is not in requirements.txt, or without the model.
    """
    package = optional("comet", "unbabel-comet", "config.evaluate.scores: 'comet'")
    try:
        checkpoint = package.download_model(MODEL)
    except OSError as error:
        raise UserError(f"config.evaluate.scores: 'comet' lacks {MODEL}: {error}") from error

    def score(
        sources: Lines, hypotheses: Lines, references: Sequence[Lines], vocabulary: Vocabulary
    ) -> dict[str, float]:
        rows = zip(sources, hypotheses, references[0], strict=True)
        items = [{"src": source, "mt": output, "ref": first} for source, output, first in rows]
        model = package.load_from_checkpoint(checkpoint)
        return {"comet": float(model.predict(items, batch_size=16, gpus=0).system_score)}

    return score
