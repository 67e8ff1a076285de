"""The modes of launch.py, one file each.

Read command_line.py (flags -> mode, workdir, config), train.py (which uses prepare.py and
evaluate.py) and translate.py (lines in, lines out: lines.py). Other modes are in families/ and
tools/; registry.MODES lists all. A mode is a function of (config, workdir) that launch.py calls. It
writes results to standard output, and logs everything else. A mode's own keys stand beside its
code, and only its config has them. train, prepare and evaluate are *collective*: all processes of a
run call them. Other modes run in a single process.
"""
