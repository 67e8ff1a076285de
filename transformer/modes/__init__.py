"""The modes of launch.py, one file each: what a command does from its config to its output.

Read command_line.py (flags -> mode, workdir, config; with overrides.py and near_names.py), train.py
(which uses prepare.py and evaluate.py), translate.py, score.py, align.py, classify.py and
generate.py (lines in, lines out: lines.py), verify.py, report.py, compare.py, audit.py, plan.py
(with collectives.py and step_time.py). A mode is a function of (config, workdir) that launch.py
calls, of (config, workdirs) if it is in FROM_WORKDIRS; it writes results to standard output, and
logs everything else. train, prepare and evaluate are collective: all processes of a run call them.
The other modes run in a single process.
"""

# {mode: "module:function"}, imported on use. A mode starts from a --config, or from the config.json
# of a trained --workdir; train from either.
FROM_CONFIG = {
    "train": "transformer.modes.train:train",
    "prepare": "transformer.modes.prepare:prepare",
    "plan": "transformer.tools.plan.plan:plan",
    "audit": "transformer.tools.audit.audit:audit",
}
FROM_WORKDIR = {
    "evaluate": "transformer.modes.evaluate:evaluate",
    "translate": "transformer.modes.translate:translate",
    "score": "transformer.modes.score:score",
    "align": "transformer.modes.align:align",
    "classify": "transformer.families.labels.classify:classify",
    "generate": "transformer.families.language_model.generate:generate",
    "verify": "transformer.modes.verify:verify",
    "report": "transformer.tools.report.report:report",
    "export": "transformer.tools.convert.export:export",
}
# These read several workdirs, given as --mode=MODE DIR DIR ..., and start from the first one's.
FROM_WORKDIRS = {
    "compare": "transformer.tools.compare.compare:compare",
}
# A mode that starts from a model of another program, with the defaults of translation.
FROM_FOREIGN = {"import": "transformer.tools.convert.import_model:import_model"}
# These take a folder besides their workdir, --mode=MODE FOLDER --workdir=DIR, and are functions of
# (config, (folder, workdir)).
WITH_FOLDER = ("import", "export")
MODES = FROM_CONFIG | FROM_WORKDIR | FROM_WORKDIRS | FROM_FOREIGN
READS_INPUT = ("translate", "score", "align", "classify", "generate")
OF_TASKS = (*READS_INPUT, "audit")  # modes that a task must name in its MODES to have them
COLLECTIVE = ("train", "prepare", "evaluate")  # modes that all processes of a run call together
