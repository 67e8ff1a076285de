"""The modes of launch.py, one file each: what a command does from its config to its output.

Read train.py (which uses prepare.py and evaluate.py), translate.py, score.py and align.py (text in,
text out: lines.py), verify.py, plan.py (with collectives.py). A mode is a function of (config,
workdir) that launch.py calls; it writes results to standard output, and logs everything else.
train, prepare and evaluate are collective: all processes of a run call them. The other modes run
in a single process.
"""
