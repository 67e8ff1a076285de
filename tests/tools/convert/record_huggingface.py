"""Records what Hugging Face's forms are here, and what transformers computes of it: fixtures/gpt2,
megatron_bert and vit.

    pip install -r tests/requirements-interop.txt
    PYTHONPATH=.:tests python tests/tools/convert/record_huggingface.py

Transformers and PyTorch are needed here alone: the tests read what was recorded.
"""

import json
import pathlib

import numpy as np
import torch
from PIL import Image
from tools.convert import huggingface
from transformers import (
    AutoImageProcessor,
    AutoTokenizer,
    GPT2LMHeadModel,
    MegatronBertForMaskedLM,
    ViTForImageClassification,
)

from transformer.data import tokenizer


def record_gpt2() -> None:
    folder = folder_of("gpt2")
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


def record_megatron_bert() -> None:
    folder = folder_of("megatron_bert")
    vocab = tokenizer.load((folder_of("gpt2") / "text.model").read_bytes(), "text.model")
    huggingface.write_megatron_bert(folder, vocab)
    inputs = huggingface.masked_inputs(len(vocab))
    model = MegatronBertForMaskedLM.from_pretrained(folder).eval()
    ids, mask = (torch.tensor(inputs[name]) for name in ("ids", "segments"))
    with torch.no_grad():
        logits = model(ids, attention_mask=mask).logits
    save(folder, logits=rounded(logits[mask > 0]))


def record_vit() -> None:
    folder = folder_of("vit")
    ours, _ = huggingface.write_vit(folder)
    save(folder, logits=rounded(vit_logits(folder, huggingface.images(ours))))


def vit_logits(folder, images) -> torch.Tensor:
    """Of images as users have them."""
    processor = AutoImageProcessor.from_pretrained(folder)
    model = ViTForImageClassification.from_pretrained(folder).eval()
    opened = [Image.fromarray(image.squeeze()) for image in images]
    with torch.no_grad():
        return model(**processor(opened, return_tensors="pt")).logits


def folder_of(name: str) -> pathlib.Path:
    folder = huggingface.FIXTURES / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def rounded(array: torch.Tensor) -> list:
    return np.asarray(array, np.float64).round(6).tolist()


def save(folder, **expected) -> None:
    (folder / "expected.json").write_text(json.dumps(expected, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    record_gpt2()
    record_megatron_bert()
    record_vit()
