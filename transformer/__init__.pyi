from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformer.tools.api.loading import config as config
from transformer.tools.api.loading import train as train
from transformer.tools.api.trained_models import Classifier, LanguageModel, TranslationModel

__version__: str

def load(
    workdir: str | Path, changes: Mapping[str, Any] | None = None
) -> TranslationModel | LanguageModel | Classifier: ...
