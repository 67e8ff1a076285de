"""The translation task, for any `config.architecture` with an encoder and a decoder.

Sentence pairs are tokenised and packed into rows. The loss is label-smoothed cross entropy, the
score BLEU.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import flax.linen as nn
import numpy as np
import sacrebleu
from ml_collections import ConfigDict

from transformer import registry
from transformer.data import packing, pairs, tokenizer
from transformer.data.batches import Batches
from transformer.data.corpora import Corpus
from transformer.decoding.translator import Translator
from transformer.distributed import processes
from transformer.errors import UserError, check_value, quantity
from transformer.models import fields
from transformer.models.ensemble import Ensemble
from transformer.runtime import progress
from transformer.tasks import losses, saved_model, splits, vocabularies
from transformer.tasks.evaluation import Evaluation, SplitSums
from transformer.tasks.saved_model import SavedModel
from transformer.tasks.task import Task, abstract_params, build_model, check_packing, make_task

# Keys that may change when a run is resumed, besides saved_config.FREE.
FREE = ("decode.", "translate.")
SCORE = {"best_by": "bleu", "best_is": "highest", "unit": "token"}
identity = vocabularies.identity
model = build_model
summarise = losses.summarise


def prepare(config: ConfigDict, workdir: Path, saved_config: ConfigDict | None) -> ConfigDict:
    """Builds missing corpora, vocabulary and token ids; returns the config, filled in."""
    splits.fill_in_languages(config, saved_config)
    corpora = splits.load_all(config, splits.pairs)
    final = splits.final_split(config)
    splits.further_references(config, final, len(corpora[final]))  # a wrong file is an early error
    train = splits.viewed(config, corpora["train"])
    # The vocabulary is learnt from one view, which is as large as the corpus.
    first_view = dataclasses.replace(train, size=len(corpora["train"]))
    vocab = vocabularies.prepare(config, workdir, saved_config, first_view)
    return prepare_tokens(config, corpora | {"train": train}, vocab)


def prepare_tokens(config: ConfigDict, corpora: Mapping, vocab: tokenizer.Vocabulary) -> ConfigDict:
    """Builds the missing token ids of all splits of pairs; returns the config."""
    # Validation scores the trained model, the final evaluation the ensemble.
    run_model = model(config, sizes_of(vocab))
    final = splits.final_split(config)
    ensemble = Ensemble((run_model, *(member for _, _, member in saved_model.ensemble(config))))
    for split, scored_model in (("validation", run_model), (final, ensemble)):
        splits.evaluation_tokens(config, corpora[split], vocab, split, scored_model)
    # Into the cache that `build` reads.
    splits.tokens(config, corpora["train"], vocab, "tokenise train")
    return config


def build(config: ConfigDict, workdir: Path) -> Task:
    """Builds the `Task` of a prepared workdir."""
    return build_pairs(config, workdir, vocabularies.read(workdir, config))


def build_pairs(config: ConfigDict, workdir: Path, vocab: tokenizer.Vocabulary) -> Task:
    """Builds the `Task` of sentence pairs with these vocabularies."""
    tokens = splits.prepared_tokens(config, vocab)
    batches = training_batches(config, tokens)
    source, target = pairs.fill_fractions(batches, tokens)
    pieces = [quantity(len(side), "piece") for side in vocab]
    about = (
        f"{quantity(len(batches.items), 'training pair')} in batches of "
        f"{config.data.batch_tokens:,} target positions, {100 * target:.1f} % of target and "
        f"{100 * source:.1f} % of source positions filled; vocabulary of "
        f"{' and '.join(pieces[: 1 if vocab.shared else 2])}"
    )
    return make_task(config, workdir, sizes_of(vocab), batches, about)


def training_batches(config: ConfigDict, tokens: splits.Tokens) -> Batches:
    """Returns the batches of the training split; an epoch is of one of its views, if any."""
    if not config.data.get("views"):
        return batches_of(config, tokens)
    return registry.load(registry.VIEWED["batches"])(config, tokens, batches_of)


def batches_of(config: ConfigDict, tokens: splits.Tokens) -> Batches:
    """Returns pairs in batches of about `data.batch_tokens` target positions."""
    data = config.data
    seed = config.train.seed
    items = packing.select_trainable(tokens.lengths, data.max_length)

    # A packed row holds as many pairs as fit. Otherwise a row holds one pair, and has the shortest
    # of a few static lengths that fits.
    def rows_of(items: np.ndarray) -> list[packing.Rows]:
        if data.pack:
            return [packing.pack(tokens.lengths, items, data.row_length, seed, tokens.directory)]
        return packing.one_per_row(tokens.lengths, items, data.row_length)

    groups = packing.mix(tokens.mixture, items, rows_of) if tokens.mixture else rows_of(items)
    return Batches(groups, data.batch_tokens, seed, functools.partial(pairs.assemble, tokens))


def loss(config: ConfigDict, model: nn.Module) -> Callable:
    """Returns the training loss, (params, batch, *, rng) -> {name: sum over the tokens}."""
    return functools.partial(losses.token_loss, model=model, **config.loss)


def sizes(config: ConfigDict, workdir: Path | None) -> dict[str, int]:
    """Returns the sizes of the workdir's vocabularies; if `workdir` is None, of the config's."""
    if workdir is None:
        return dict.fromkeys(("source_vocab_size", "target_vocab_size"), config.vocabulary.size)
    return sizes_of(vocabularies.read(workdir, config))


def sizes_of(vocab: tokenizer.Vocabulary) -> dict[str, int]:
    """Returns the sizes of vocabularies, as a model takes them."""
    return {"source_vocab_size": len(vocab.source), "target_vocab_size": len(vocab.target)}


def example(config: ConfigDict, rows: int) -> dict:
    """Returns a batch of jax.ShapeDtypeStruct [rows, length], with the longest rows of the run.

    Packed rows have `data.row_length` positions. Rows of one pair have several static lengths; the
    longest is the first that holds `data.max_length` pieces. `rows` is 0 for a full batch.
    """
    data = config.data
    length = data.row_length
    if not data.pack:
        lengths = packing.static_lengths(length, data.max_length)
        length = next(length for length in lengths if length >= data.max_length)
    return pairs.example(rows or max(1, data.batch_tokens // length), length)


def check(config: ConfigDict) -> None:
    """Raises UserError for invalid values, before anything is written or compiled."""
    check_value("evaluate.tokenize", config.evaluate.tokenize, tuple(sacrebleu.BLEU.TOKENIZERS))
    _check_bleu(config.evaluate.tokenize)
    scorers(config)  # so that a missing package is named now
    splits.viewed(config, Corpus("", 0, lambda indices: ()))  # or an unknown view
    # Toy vocabularies, of different sizes unless shared, so that tied_embeddings='all' is refused.
    toy = {"source_vocab_size": 8, "target_vocab_size": 8 if config.vocabulary.shared else 9}
    check_pairs(config, toy)


def check_pairs(config: ConfigDict, vocab_sizes: Mapping[str, int]) -> None:
    """Raises UserError if rows, model and search of sentence pairs do not fit together."""
    data = config.data
    # The longest pair must fit into a row, and a row into a batch.
    if data.pack:
        check_value("data.max_length", data.max_length, f"at most {data.row_length}")
    check_value("data.batch_tokens", data.batch_tokens, f"at least {data.row_length}")
    # The model and the translator check their values when built.
    checked = model(config, vocab_sizes)
    # Not row_length, because positions restart in each sentence.
    fields.check_positions(checked, data.max_length, f"config.data.max_length={data.max_length}")
    check_packing(checked, data.pack)
    abstract_params(checked, example(config, 1))
    saved_model.check_fusion(config)
    for decoded in (checked, *(member for _, _, member in saved_model.ensemble(config))):
        Translator(decoded, None, **config.decode)


def _check_bleu(tokenize: str) -> None:
    """Raises UserError if sacreBLEU lacks a package or download that the tokeniser needs."""
    try:
        sacrebleu.BLEU(tokenize=tokenize)
    except (RuntimeError, ImportError, OSError) as error:
        raise UserError(f"config.evaluate.tokenize={tokenize!r} cannot be used: {error}") from error


def evaluator(config: ConfigDict, workdir: Path, model: nn.Module, split: str) -> Evaluation:
    """Returns the evaluator of a split.

    Every sentence counts, however long. Scores are means per token ('loss', 'nats_per_token',
    'perplexity', 'accuracy') and those of `score`; further ones are of config.evaluate.scores. The
    outputs are 'source', 'reference', 'reference2', ... and 'hypothesis'.
    """
    splits.log_origin(config, split)
    corpus = splits.pairs(config, split)
    vocab = vocabularies.read(workdir, config)
    source, *targets = corpus.read()
    targets += splits.further_references(config, split, len(corpus))
    sources = tokenizer.normalised(source, vocab.source.normalisation)
    # Normalise references like translations, because a decomposed é would be another letter.
    references = [tokenizer.normalised(lines, vocab.target.normalisation) for lines in targets]
    names = ["reference", *(f"reference{i}" for i in range(2, len(references) + 1))]
    dataset = {"source": sources, **dict(zip(names, references, strict=True))}
    score_texts = functools.partial(score, references=references, tokenize=config.evaluate.tokenize)

    def further(outputs: dict) -> dict:
        texts = sources, outputs["hypothesis"], references, vocab
        return {name: x for scorer in scorers(config) for name, x in scorer(*texts).items()}

    evaluation = evaluate_pairs(
        config, corpus, vocab, model, split, dataset=dataset, score=score_texts, rows=rows
    )
    return evaluation._replace(further=further)


def evaluate_pairs(
    config: ConfigDict,
    corpus: Corpus,
    vocab: tokenizer.Vocabulary,
    model: nn.Module,
    split: str,
    *,
    dataset: dict[str, Sequence[str]],
    score: Callable[[Sequence[str]], dict],
    rows: Callable[[dict], dict[str, str]],
    output: Callable[[str, str], str] = lambda target, source: target,
) -> Evaluation:
    """Returns the `Evaluation` of a split of sentence pairs, by its translations and by its tokens.

    `dataset` is {'source': ..., 'reference': ..., ...}. output(target, source) makes a hypothesis
    of a translation. score(hypotheses) returns the scores that `rows` formats.
    """
    decode = decode_of(config, corpus)
    tag = decode["tag"]
    translator = Translator(model, vocab, **decode)
    items = lambda indices: ((tokenizer.tagged(tag, x), y) for x, y in corpus.items(indices))
    tagged = dataclasses.replace(corpus, items=items, fingerprint=corpus.fingerprint + tag)
    tokens = splits.evaluation_tokens(config, tagged, vocab, split, model)
    groups = packing.one_per_row(tokens.lengths, np.arange(len(corpus)), config.data.row_length)
    assemble = functools.partial(pairs.assemble, tokens)
    loss = SplitSums(
        Batches(groups, config.decode.batch_tokens, None, assemble),
        functools.partial(losses.only_sums, model=model, options=tuple(config.loss.items())),
        what=f"loss of {split}",
        remedy="lower config.decode.batch_tokens",
    )

    def rehearse(params: dict) -> None:
        loss.rehearse(params)
        translator.rehearse(params, tokens.sides["source"].lengths)

    def scored(params: dict) -> tuple[dict, dict]:
        targets = translate(translator, params, dataset["source"], f"translate {split}")
        outputs = {**dataset, "hypothesis": [*map(output, targets, dataset["source"])]}
        sums, _ = loss.score(params)
        scores = score(outputs["hypothesis"]) | losses.per_token(sums)
        return {**scores, "samples": samples(outputs, config.evaluate.samples)}, outputs

    references = {name: name for name in dataset if name != "source"}
    return Evaluation(
        split=split,
        files=list(corpus.files),
        dataset=dataset,
        settings={"sentences": len(corpus), "decode": decode},
        columns={"input": "source", **references, "output": "hypothesis"},
        score=scored,
        rehearse=rehearse,
        rows=lambda scores: rows(scores) | losses.rows(scores) | {"sentences": f"{len(corpus):,}"},
    )


def decode_of(config: ConfigDict, corpus: Corpus) -> dict:
    """Returns the values of config.decode for a corpus: a mixture's sources have their own tags."""
    return {**config.decode, "tag": "" if corpus.mixture else config.decode.tag}


def translate(translator: Translator, params: dict, sources: Sequence[str], what: str) -> list[str]:
    """Translates the sources; `what` labels the progress. Collective."""
    lines = processes.my_share(len(sources))
    # Process 1 of 4 translates sentences 1, 5, 9, ...
    share = sources[lines.start :: lines.step]
    with progress.counter(what, total=len(lines)) as advance:
        translations = list(translator.translate(params, share, advance, numbers=lines))
    return processes.gather_shares(translations, len(sources))


def score(hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, tokenize: str) -> dict:
    """Returns 'bleu' (sacreBLEU, 0 to 100) and its 'signature', 'chrf', and 'length_ratio'.

    Text is detokenised and cased; `tokenize` is sacreBLEU's tokeniser. `references` has a list of
    lines for each reference. 'length_ratio' is the hypotheses' number of tokens over that of the
    references nearest in length.
    """
    bleu = sacrebleu.BLEU(tokenize=tokenize)
    bleu_score = bleu.corpus_score(hypotheses, references)
    return {
        "bleu": bleu_score.score,
        "signature": str(bleu.get_signature()),
        "chrf": sacrebleu.CHRF().corpus_score(hypotheses, references).score,
        "length_ratio": bleu_score.sys_len / max(1, bleu_score.ref_len),
    }


def scorers(config: ConfigDict) -> list[Callable]:
    """Returns the functions of config.evaluate.scores, see registry.SCORES.

    UserError for an unknown name or a missing package.
    """
    names = filter(None, config.evaluate.scores.split(","))
    return [registry.find(registry.SCORES, "evaluate.scores", name)(config) for name in names]


def rows(scores: dict) -> dict[str, str]:
    """Formats scores as a table {name: text}, the main score first."""
    return {
        "BLEU": f"{scores['bleu']:.2f} ({scores['signature']})",
        "chrF": f"{scores['chrf']:.2f}",
        "length ratio": f"{scores['length_ratio']:.3f}",
    }


def samples(outputs: dict[str, Sequence[str]], number: int) -> str:
    """Formats a few sentences, evenly spaced over the split, for the log."""
    # 3 samples of 5 sentences are sentences 0, 2 and 4.
    size = len(outputs["source"])
    chosen = np.linspace(0, size - 1, min(number, size)).astype(int)
    sides = [outputs[name] for name in ("source", "hypothesis", "reference")]
    return "\n".join(SAMPLE.format(*(side[i] for side in sides)) for i in chosen)


# Three lines per sentence in a log line's 'samples', separated by empty lines.
SAMPLE = "  source       {}\n  translation  {}\n  reference    {}\n"


def load(config: ConfigDict, workdir: Path) -> SavedModel:
    """Loads a workdir's model or ensemble, its params and vocabulary. Collective."""
    loaded = saved_model.load(config, workdir)
    return loaded._replace(vocabulary=vocabularies.read(workdir, config))


def translator(config: ConfigDict, workdir: Path, run: SavedModel, decode: Mapping) -> Translator:
    """Returns a Translator of a loaded workdir by keys of config.decode.

    With config.translate.confidence it estimates how good its translations are.
    """
    made = Translator(run.model, run.vocabulary, **decode)
    for key, code in registry.ESTIMATORS.items():
        if config.translate[key]:
            made.estimate = registry.load(code)(config, workdir, run, made.decode)
    return made
