"""Records fixtures/marian: a small random MarianMTModel with its logits.

    pip install -r tests/requirements-interop.txt
    python tests/tools/convert/record_marian.py

Transformers and PyTorch are needed here alone: the tests read what was recorded.
"""

import io
import json
import pathlib

import numpy as np
import sentencepiece
import torch
from transformers import MarianConfig, MarianMTModel, MarianTokenizer

FOLDER = pathlib.Path(__file__).parent / "fixtures" / "marian"
WORDS = "the cat sees a small red house and dog runs in old green garden with many birds"
LINES = [">>fra<< the cat", "the dog runs in the old garden", " a  small zebra ", "birds", ""]


def pieces_of(side: str, seed: int) -> list[str]:
    random = np.random.default_rng(seed)
    lengths = random.integers(3, 10, 400)
    lines = [" ".join(random.choice(WORDS.split(), length)) for length in lengths]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=38,
        model_type="unigram",
        normalization_rule_name="identity",
        minloglevel=2,
    )
    (FOLDER / f"{side}.spm").write_bytes(model.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return [processor.id_to_piece(i) for i in range(len(processor))]


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    learnt = {*pieces_of("source", 1), *pieces_of("target", 2)} - {"<s>", "</s>", "<unk>"}
    pieces = ["</s>", "<unk>", *sorted(learnt), ">>fra<<", "<pad>"]
    pad = len(pieces) - 1
    (FOLDER / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}))
    (FOLDER / "tokenizer_config.json").write_text('{"tokenizer_class": "MarianTokenizer"}')
    both = {"attention_heads": 2, "ffn_dim": 24}
    config = MarianConfig(
        vocab_size=len(pieces),
        d_model=16,
        encoder_layers=1,
        decoder_layers=2,
        **{f"{half}_{name}": x for half in ("encoder", "decoder") for name, x in both.items()},
        activation_function="swish",
        scale_embedding=True,
        pad_token_id=pad,
        decoder_start_token_id=pad,
        eos_token_id=0,
        forced_eos_token_id=0,
        max_position_embeddings=64,
    )
    torch.manual_seed(0)
    model = MarianMTModel(config).eval()
    with torch.no_grad():
        for name, x in model.named_parameters():
            if "embed_positions" not in name:
                x.normal_(1.0 if "layer_norm.weight" in name else 0.0, 0.25)
        model.final_logits_bias.normal_()
        model.model.shared.weight[pad] = 0
    model.save_pretrained(FOLDER)
    tokenizer = MarianTokenizer.from_pretrained(FOLDER)
    inputs = tokenizer(LINES, return_tensors="pt", padding=True)
    target = np.random.default_rng(0).integers(2, pad, (len(LINES), 7))
    shifted = np.concatenate([np.full((len(LINES), 1), pad), target[:, :-1]], axis=1)
    with torch.no_grad():
        logits = model(**inputs, decoder_input_ids=torch.tensor(shifted)).logits
    expected = {
        "lines": LINES,
        "pieces": [tokenizer.convert_ids_to_tokens(x) for x in tokenizer(LINES)["input_ids"]],
        "target": [[pieces[i] for i in row] for row in target],
        "order": pieces,
        "logits": [[[round(float(x), 6) for x in t] for t in row] for row in logits],
    }
    (FOLDER / "expected.json").write_text(json.dumps(expected, ensure_ascii=False) + "\n")


main()
