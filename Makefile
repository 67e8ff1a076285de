# `make train` trains a small Transformer and scores it; `make test` runs the tests. Both make .venv
# themselves, from Python 3.11 or newer: the first of these that is one, or PYTHON=/path/to/python.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

.PHONY: train test test-slow test-all lint kill-matrix
train: .venv/installed
	.venv/bin/python launch.py --config=configs/quickstart.py

# A process a core, each with whole files: tests of a file share what they trained.
PYTEST = .venv/bin/python -m pytest --numprocesses=auto --maxprocesses=8 --dist=loadfile --no-loadscope-reorder --durations=20
test: .venv/installed  # what proves the mathematics, the data, a resumed and a killed run: five minutes
	$(PYTEST) -m "not slow"

test-slow: .venv/installed  # long matrices: of kills, meshes, several processes, damage
	$(PYTEST) -m slow

test-all: .venv/installed
	$(PYTEST)

# One run, ended 20 times at random moments; `make test-slow` does so five times.
kill-matrix: .venv/installed
	KILLS=20 .venv/bin/python -m pytest -k kill_matrix

lint: .venv/installed
	.venv/bin/ruff format --check
	.venv/bin/ruff check

.venv/installed: requirements.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python" >&2; exit 2; }
	$(PYTHON) -m venv .venv
	.venv/bin/pip install --quiet --upgrade -r requirements.txt
	touch $@
