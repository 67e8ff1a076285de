"""The run in a few lines, which a report's golden page has: how a result is scored."""

from tools.pages import workdirs

from transformer.tools.report import summary


def test_bleu_is_of_the_tokenizer_that_scored_the_result(tmp_path):
    """Not of config.json's, which --mode=evaluate may have been told to change."""
    run = workdirs.translated(tmp_path)
    results = [summary.section(run).parts[0]["Result"]]
    run.evaluations[-1].result["signature"] = "nrefs:1|tok:char|version:2"
    results.append(summary.section(run).parts[0]["Result"])
    assert results[0] != results[1]
    newest = run.evaluations[-1]
    newest.outputs["second"] = newest.outputs["hypothesis"]
    newest.result["columns"]["reference2"] = "second"
    assert "BLEU 100.00" in summary.section(run).parts[0]["Result"]
