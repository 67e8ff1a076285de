"""Fine-tunes a trained or imported model on other text, as for domain adaptation.

    python launch.py --config=configs/fine_tuning.py:RUN --workdir=runs/tuned \
        --config.data.directory=FOLDER

RUN is the workdir of the model. The new run has its architecture, vocabulary, loss and decoding. It
starts from its best params, with a fresh optimizer and a small, constant learning rate. Translation
reads parallel text: FOLDER holds train.SOURCE, train.TARGET, validation.SOURCE, ...
(configs/parallel_text.py has other names). Other tasks read files with RUN's names.

--config.optimizer.frozen=encoder,target_embedding freezes the parameters below these prefixes of
paths.
"""

import importlib
import json
from pathlib import Path

from ml_collections import ConfigDict

HERE = Path(__file__).parent
# Keys of the text that RUN was trained on.
TEXT = {"directory", "data_dir", "corpus", "model", "fingerprint", "labels_fingerprint"}


def get_config(run: str = "") -> ConfigDict:
    file = Path(run).expanduser() / "config.json"
    if not run or not file.is_file():
        raise ValueError(
            f"expected configs/fine_tuning.py:RUN with the workdir of a run, found {run!r}, which "
            "holds no config.json"
        )
    saved = json.loads(file.read_bytes())
    if not isinstance(saved, dict) or not {"task", "architecture", "model"} <= saved.keys():
        raise ValueError(f"{file} is no config of a run, which has a task and a model")
    if saved["task"] not in {path.stem for path in HERE.glob("[!_]*.py")}:
        raise ValueError(f"{file}: task {saved['task']!r} is none of this folder's")
    config = importlib.import_module(f"configs.{saved['task']}").get_config()
    same = config.architecture == saved["architecture"]
    config.architecture = saved["architecture"]
    config.model = {**(config.model if same else {}), **saved["model"]}
    for section in ("data", "vocabulary", "loss", "decode"):
        for key, value in saved.get(section, {}).items():
            if key in config.get(section, {}) and key not in TEXT:
                config[section][key] = tuple(value) if isinstance(value, list) else value
    if "corpus" in config.data:
        config.data.update(corpus="parallel_text", train="train", test="test")
        config.data.validation = "validation"
    config.vocabulary.model = str(file.parent / "vocabulary")
    config.train.init_from = run

    config.optimizer.schedule = {
        "name": "warmup_constant_schedule",
        "init_value": 0.0,
        "peak_value": 1e-4,
        "warmup_steps": 100,
    }
    config.train.num_steps = 1000
    config.train.save_every = config.evaluate.every = 250
    config.evaluate.weights = "best"
    config.evaluate.patience = 3
    return config
