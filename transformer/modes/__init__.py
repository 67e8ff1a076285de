"""The modes of launch.py, one file each: what a command does from its config to its output.

Read command_line.py (flags -> mode, workdir, config), train.py (which uses prepare.py and
evaluate.py), translate.py, score.py, align.py, classify.py and generate.py (lines in, lines out:
lines.py), verify.py, plan.py (with collectives.py and step_time.py). A mode is a function of
(config, workdir) that launch.py calls; it writes results to standard output, and logs everything
else. train, prepare and evaluate are collective: all processes of a run call them. The other modes
run in a single process.
"""

# {mode: "module:function"}, imported on use. A mode starts from a --config, or from the config.json
# of a trained --workdir.
FROM_CONFIG = {
    "train": "transformer.modes.train:train",
    "prepare": "transformer.modes.prepare:prepare",
    "plan": "transformer.modes.plan:plan",
}
FROM_WORKDIR = {
    "evaluate": "transformer.modes.evaluate:evaluate",
    "translate": "transformer.modes.translate:translate",
    "score": "transformer.modes.score:score",
    "align": "transformer.modes.align:align",
    "classify": "transformer.modes.classify:classify",
    "generate": "transformer.modes.generate:generate",
    "verify": "transformer.modes.verify:verify",
}
MODES = FROM_CONFIG | FROM_WORKDIR
# Modes that a task must name in its MODES to have them; they read standard input.
OF_TASKS = READS_INPUT = ("translate", "score", "align", "classify", "generate")
COLLECTIVE = ("train", "prepare", "evaluate")  # modes that all processes of a run call together
