"""CTranslate2's package loads what is written, where it is installed."""

import numpy as np
import pytest
from helpers import tiny

from transformer.checkpoints import weights
from transformer.data import pairs, tokenizer
from transformer.tools.convert import ctranslate2_write

FORM = {"key_size": 0, "value_size": 0}
PIECES = ["<pad>", "</s>", "<unk>", "<s>", *"abcdefghi"]


def engine(folder, model, params):
    """CTranslate2's own translator of what is written."""
    ctranslate2 = pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    flat = weights.flatten(params)
    ctranslate2_write.write(folder, model, flat, [PIECES, PIECES], num_positions=20)
    return ctranslate2.Translator(str(folder), intra_threads=1)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tied_embeddings": "none", "output_bias": True, "residual": "pre", "final_norm": True},
        {"tied_embeddings": "target", "attention_bias": True, "num_decoder_layers": 1},
        {"positions": "learned", "feed_forward": "gelu"},
        {"positions": "concatenated", "feed_forward": "silu"},
    ],
    ids=str,
)
def test_its_package_gives_our_log_probabilities(tmp_path, changes):
    model = tiny.model(**FORM, **changes)
    params = tiny.parameters(model, tiny.unpacked(tiny.pairs())["inputs"])
    source, target = [[4, 9, 5, 1], [7, 7, 6, 1]], [[5, 6, 12, 1], [8, 4, 4, 1]]
    names = lambda rows: [[PIECES[i] for i in row[:-1]] for row in rows]
    scored = engine(tmp_path, model, params).score_batch(names(source), names(target))
    inputs = pairs.inputs_of_single_pairs(np.array(source), np.array(target))
    logits = tiny.logits(model, params, inputs)
    log_probs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    ours = np.take_along_axis(log_probs, np.array(target)[:, :, None], axis=2)[:, :, 0]
    np.testing.assert_allclose([x.log_probs for x in scored], ours, atol=1e-4)


def test_its_package_reads_sources_and_writes_outputs_as_long_as_it_does_by_default(tmp_path):
    """Of a model that never ends."""
    model = tiny.model(**FORM, output_bias=True)
    params = tiny.parameters(model, tiny.unpacked(tiny.pairs())["inputs"])
    params["output_bias"][tokenizer.END] = -1e4
    [result] = engine(tmp_path, model, params).translate_batch([[PIECES[5]] * 3000], beam_size=1)
    assert len(result.hypotheses[0]) == 256
