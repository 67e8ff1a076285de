"""Loss, accuracy, BLEU and chrF of a translation model on a split."""

import functools
import logging
import re
from collections.abc import Iterable, Sequence

import flax.linen as nn
import numpy as np
import sacrebleu
from ml_collections import ConfigDict

from transformer import registry
from transformer.data import packing, tokenizer
from transformer.data.batches import Batches
from transformer.data.pairs import assemble as assemble_pairs
from transformer.decoding.translator import Translator
from transformer.distributed import processes
from transformer.runtime import progress
from transformer.tasks import losses, splits
from transformer.tasks.evaluation import Evaluation, SplitSums

Tree = dict


def score(hypotheses: Sequence[str], references: Sequence[str], *, tokenize: str) -> dict:
    """Returns 'bleu' (sacreBLEU, 0 to 100) and its 'signature', 'chrf', and 'length_ratio'.

    Text is detokenised and cased; `tokenize` is sacreBLEU's tokeniser. 'length_ratio' is the
    number of tokens in the hypotheses over that in the references.
    """
    bleu = sacrebleu.BLEU(tokenize=tokenize)
    bleu_score = bleu.corpus_score(hypotheses, [references])
    return {
        "bleu": bleu_score.score,
        "signature": str(bleu.get_signature()),
        "chrf": sacrebleu.CHRF().corpus_score(hypotheses, [references]).score,
        "length_ratio": bleu_score.sys_len / max(1, bleu_score.ref_len),
    }


def further_scores(name: str, hypotheses: Sequence[str], references: Sequence[str]) -> dict:
    """Returns the scores by this name in registry.SCORES; '' has none."""
    return registry.load(registry.SCORES[name])(hypotheses, references) if name else {}


def evaluation(
    config: ConfigDict, vocabulary: tokenizer.Vocabulary, model: nn.Module, split: str
) -> Evaluation:
    """Returns the `Evaluation` of a split: loss, BLEU and chrF of every sentence, however long.

    Scores are means per token ('loss', 'nats_per_token', 'perplexity', 'accuracy'), the keys of
    `score` and those of config.evaluate.scores; the outputs have the lines 'source', 'reference'
    and 'hypothesis'.
    """
    data = config.data
    message = (
        "split %s: %r of corpus %s, config.data.directory=%r; token ids are cached in "
        "config.data.data_dir=%r"
    )
    name = data.get(split, split)
    logging.info(message, split, name, data.corpus, data.directory, data.data_dir)
    pairs = splits.pairs(config, split)
    # References in the form of the translations: é in two parts would count as another letter.
    sources, references = (
        tokenizer.normalised(lines, side.normalisation)
        for lines, side in zip(pairs.read(), vocabulary, strict=True)
    )
    dataset = {"source": sources, "reference": references}
    translator = Translator(model, vocabulary, **config.decode)
    further = further_scores(config.evaluate.scores, [""], [""])  # their names
    tokens = splits.evaluation_tokens(config, pairs, vocabulary, split, model)
    items = np.arange(len(pairs))
    loss = SplitSums(
        Batches(
            packing.one_per_row(tokens.lengths, items, data.row_length),
            config.decode.batch_tokens,
            None,
            functools.partial(assemble_pairs, tokens),
        ),
        functools.partial(losses.only_sums, model=model, options=tuple(config.loss.items())),
        what=f"loss of {split}",
        remedy="lower config.decode.batch_tokens",
    )

    def rehearse(params: Tree) -> None:
        loss.rehearse(params)
        translator.rehearse(params, tokens.sides["source"].lengths)

    def scored(params: Tree) -> tuple[dict, dict]:
        translations = translate(translator, params, sources, f"translate {split}")
        sums, _ = loss.score(params)
        scores = score(translations, references, tokenize=config.evaluate.tokenize)
        scores |= further_scores(config.evaluate.scores, translations, references)
        sample = samples(sources, translations, references, config.evaluate.samples)
        scores |= {**losses.per_token(sums), "samples": sample}
        return scores, {**dataset, "hypothesis": translations}

    return Evaluation(
        split=split,
        files=list(pairs.files),
        dataset=dataset,
        settings={"sentences": len(pairs), "decode": config.decode.to_dict()},
        columns={"input": "source", "reference": "reference", "output": "hypothesis"},
        score=scored,
        rehearse=rehearse,
        rows=lambda scores: {**rows(scores, further), "sentences": f"{len(pairs):,}"},
    )


def translate(translator: Translator, params: Tree, sources: Sequence[str], what: str) -> list[str]:
    """Translates the sources; `what` labels the progress. Collective.

    Each process translates its share.
    """
    lines = processes.my_share(len(sources))
    # A strided share: process 1 of 4 translates sentences 1, 5, 9, ...
    share = sources[lines.start :: lines.step]
    with progress.counter(what, total=len(lines)) as advance:
        translations = list(translator.translate(params, share, advance, numbers=lines))
    return processes.gather_shares(translations, len(sources))


def rows(scores: dict, further: Iterable[str] = ()) -> dict[str, str]:
    """Formats scores as a table, {name: text}, with the main score first, and `further` ones."""
    return {
        "BLEU": f"{scores['bleu']:.2f} ({scores['signature']})",
        "chrF": f"{scores['chrf']:.2f}",
        **{name: f"{scores[name]:.2f}" for name in further},
        "length ratio": f"{scores['length_ratio']:.3f}",
        "loss": f"{scores['loss']:.4f}",
        "perplexity": f"{scores['perplexity']:.3f}",
        "accuracy": f"{scores['accuracy']:.1%} of tokens",
    }


def samples(
    sources: Sequence[str], translations: Sequence[str], references: Sequence[str], number: int
) -> str:
    """Formats a few sentences, evenly spaced over the split, for the log."""
    # Of 5 sentences, 3 samples are the sentences 0, 2 and 4.
    chosen = np.linspace(0, len(sources) - 1, min(number, len(sources))).astype(int)
    sides = sources, translations, references
    return "\n".join(SAMPLE.format(*(side[i] for side in sides)) for i in chosen)


# A log line's 'samples' has these three lines for each sentence, and an empty line between two.
SAMPLE = "  source       {}\n  translation  {}\n  reference    {}\n"


def read_samples(text: str) -> list[tuple[str, str, str]]:
    """Returns (source, translation, reference) of each sentence of a log line's 'samples'."""
    return re.findall(SAMPLE.format("(.*)", "(.*)", "(.*)"), text)
