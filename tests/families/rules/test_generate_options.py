"""Rules as options of Hugging Face's `generate`."""

import json

from transformer.tools.convert import marian_config


def test_rules_that_generate_has_come_back(tmp_path, caplog):
    rules = "repetition(penalty=1.2),no_repeat_ngram(size=3)"
    options = marian_config.rules_of(f"forbidden,{rules}")
    assert options == {"repetition_penalty": 1.2, "no_repeat_ngram_size": 3}
    assert "Marian's generate has no rule forbidden" in caplog.text
    (tmp_path / "config.json").write_text(json.dumps(options))
    ids = dict.fromkeys(("pad_token_id", "decoder_start_token_id"), 0)
    assert marian_config.search_of(tmp_path, ids)[0]["decode.rules"] == rules
    assert marian_config.rules_of("") == {}
