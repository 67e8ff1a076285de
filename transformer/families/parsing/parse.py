"""--mode=parse: parses the sentences on standard input, a tree per line."""

import sys
from pathlib import Path

from ml_collections import ConfigDict

from transformer.decoding.translator import Request, Translator
from transformer.families.parsing import parsing_task, trees
from transformer.modes import lines, translate
from transformer.tasks import saved_model


def parse(config: ConfigDict, workdir: Path) -> None:
    """Reads sentences, whose words are separated by spaces, and writes the tree of each.

    Words are those of the treebank: "do n't", and punctuation apart. With `config.parse.format`
    'json', a line is an object, to which 'tree' and 'score' are added. With
    `config.decode.num_hypotheses` above 1, all 'hypotheses' are added, too.
    """
    form = config.parse.format
    inputs = lines.columns(lines.read(sys.stdin.buffer), ("source",), needed=1, form=form)
    run = saved_model.load(config, workdir)
    translator = Translator(run.model, parsing_task.vocabulary(config, workdir), **config.decode)
    request = lambda x: Request(" ".join(trees.words_of(x["source"])))
    for hypotheses, values in translate.answers(translator, run.params, inputs, request, "parse"):
        parsed = [
            {"tree": parsing_task.tree_of(x.text, values["source"]), "score": x.score}
            for x in hypotheses
        ]
        answer = parsed[0]["tree"]
        if form == "json":
            more = {"hypotheses": parsed} if config.decode.num_hypotheses > 1 else {}
            answer = lines.to_json({**values, **parsed[0], **more})
        lines.write(sys.stdout.buffer, answer)
