"""Records fixtures/gpt2: what is written here, as transformers reads it, and what it computes.

    pip install -r tests/requirements-interop.txt
    PYTHONPATH=.:tests python tests/interop/record_huggingface.py

Transformers and PyTorch are needed here alone: the tests read what was recorded.
"""

import json

import numpy as np
import torch
from helpers import huggingface
from transformers import AutoTokenizer, GPT2LMHeadModel


def main() -> None:
    folder = huggingface.FIXTURES / "gpt2"
    folder.mkdir(parents=True, exist_ok=True)
    vocab = huggingface.learn()
    (folder / "text.model").write_bytes(vocab.processor.serialized_model_proto())
    huggingface.write_gpt2(folder, vocab)
    tokens = torch.tensor(huggingface.tokens(len(vocab)))
    model = GPT2LMHeadModel.from_pretrained(folder).eval()
    with torch.no_grad():
        logits = model(tokens).logits
        greedy = model.generate(tokens, do_sample=False, max_length=huggingface.CONTEXT)
    save(
        folder,
        ids=AutoTokenizer.from_pretrained(folder)(huggingface.TEXTS)["input_ids"],
        logits=rounded(logits),
        greedy=greedy.tolist(),
    )


def rounded(array: torch.Tensor) -> list:
    return np.asarray(array, np.float64).round(6).tolist()


def save(folder, **expected) -> None:
    (folder / "expected.json").write_text(json.dumps(expected, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
