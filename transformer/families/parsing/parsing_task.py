"""The parsing task: the words of a sentence are translated into the symbols of its tree.

Model, batches, loss and search are those of translation. The source is the words, in pieces of a
vocabulary that is learnt from them; the target is the symbols of trees.py. The score is EVALB's F1.
"""

import functools
from pathlib import Path

import flax.linen as nn
from ml_collections import ConfigDict

from transformer.data.tokenizer import Vocabulary
from transformer.families.parsing import brackets, evalb, treebank, trees
from transformer.tasks import losses, splits, translation, vocabularies
from transformer.tasks.evaluation import Evaluation
from transformer.tasks.task import Task, build_model

FREE = ("decode.", "parse.")
SCORE = {"best_by": "f1", "best_is": "highest", "unit": "token"}
SYMBOLS = 97  # of the Penn Treebank, 26 labels and 45 tags, for --mode=plan
model = build_model
example = translation.example
loss = translation.loss
summarise = losses.summarise


def check(config: ConfigDict) -> None:
    """Raises UserError for invalid values, before anything is written or compiled."""
    translation.check_pairs(config, sizes(config, None))


def load(config: ConfigDict, split: str) -> treebank.Treebank:
    """Returns a split: the trees of the files that config.data.SPLIT names."""
    name, key = splits.name_and_key(config, split)
    return treebank.load(name, directory=config.data.directory, key=key)


def prepare(config: ConfigDict, workdir: Path, saved_config: ConfigDict | None) -> ConfigDict:
    """Builds missing vocabularies and token ids; returns the config, filled in."""
    corpora = splits.load_all(config, load)
    pieces = vocabularies.prepare(config, workdir, saved_config, corpora["train"])
    symbols = brackets.prepare(config, workdir, saved_config, corpora["train"].trees)
    return translation.prepare_tokens(config, corpora, Vocabulary(pieces, symbols))


def vocabulary(config: ConfigDict, workdir: Path) -> Vocabulary:
    """Returns a workdir's vocabularies, of words and of symbols."""
    symbols = brackets.read(workdir, config.vocabulary.brackets_fingerprint)
    return Vocabulary(vocabularies.read(workdir, config), symbols)


def identity(config: ConfigDict) -> dict[str, str]:
    """Returns the fingerprints of the vocabularies; "" before `prepare`."""
    options = config.vocabulary
    return {"vocabulary": options.fingerprint, "brackets": options.brackets_fingerprint}


def sizes(config: ConfigDict, workdir: Path | None) -> dict[str, int]:
    """Returns the sizes of the workdir's vocabularies; if `workdir` is None, an estimate."""
    if workdir is not None:
        return translation.sizes_of(vocabulary(config, workdir))
    symbols = brackets.Brackets(tuple(map(str, range(SYMBOLS))))
    return {"source_vocab_size": config.vocabulary.size, "target_vocab_size": len(symbols)}


def build(config: ConfigDict, workdir: Path) -> Task:
    """Builds the `Task` of a prepared workdir."""
    return translation.build_pairs(config, workdir, vocabulary(config, workdir))


def evaluator(config: ConfigDict, workdir: Path, model: nn.Module, split: str) -> Evaluation:
    """Returns the evaluator of a split.

    Every sentence counts, however long. Scores are those of `evalb.score` and means per symbol
    ('loss', 'nats_per_token', 'perplexity', 'accuracy'). The outputs are 'source', the words, and
    the trees 'reference' and 'hypothesis', as text.
    """
    splits.log_origin(config, split)
    corpus = load(config, split)
    vocab = vocabulary(config, workdir)
    references = [trees.to_text(tree) for tree in corpus.trees]
    dataset = {"source": corpus.read()[0], "reference": references}
    score = functools.partial(evalb.score, references=references)
    return translation.evaluate_pairs(
        config, corpus, vocab, model, split, dataset=dataset, score=score, rows=rows, output=tree_of
    )


def tree_of(written: str, sentence: str) -> str:
    """Returns the tree, as text, of the symbols that a model has written for a sentence."""
    return trees.to_text(trees.repaired(written.split(), trees.words_of(sentence)))


def rows(scores: dict) -> dict[str, str]:
    """Formats scores as a table {name: text}, main score first."""
    return {
        "F1": f"{scores['f1']:.2f}",
        "precision": f"{scores['precision']:.2f}",
        "recall": f"{scores['recall']:.2f}",
        "complete match": f"{scores['complete_match']:.2f} % of sentences",
    }
