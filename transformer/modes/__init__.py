"""The modes of launch.py, one file each: what a command does from its config to its output.

Read command_line.py (flags -> mode, workdir, config), train.py (which uses prepare.py and
evaluate.py) and translate.py (lines in, lines out: lines.py). Other modes are in families/ and
tools/; registry.MODES lists all. A mode is a function of (config, workdir) that launch.py calls; it
writes results to standard output, and logs everything else. Keys that only one mode reads stand
beside that mode, and no other mode's config has them. train, prepare and evaluate are *collective*:
all processes of a run call them. The other modes run in a single process.
"""
