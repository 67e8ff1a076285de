# `make train` trains a small Transformer and scores it; `make test` runs the tests. Both install
# what they need into .venv, from Python 3.11 or newer: the first of these that is one, or
# PYTHON=/path/to/python. With another version of Python .venv is created anew.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VERSION := $(shell $(or $(PYTHON),false) -c \
	'import sys; print("%d.%d" % sys.version_info[:2] if sys.version_info >= (3, 11) else "")' 2>/dev/null)
ifeq ($(VERSION),)
$(error expected Python 3.11 or newer, found PYTHON=$(PYTHON): make PYTHON=/path/to/python3.11)
endif
VENV ?= .venv
INSTALLED = $(VENV)/installed-$(VERSION)
TOOLS = $(VENV)/tools-$(VERSION)
# Without bytecode, which Python writes of what it imports: that halves pip's time.
PIP = $(VENV)/bin/pip install --quiet --disable-pip-version-check --no-compile --upgrade

.PHONY: install train test test-slow test-all test-nightly check docs lint size kill-matrix fuzz results
install: $(INSTALLED)

train: $(INSTALLED)
	$(VENV)/bin/python launch.py --config=configs/quickstart.py

# A process a core and one more, because some tests wait for processes that they start. Each has whole
# files: tests of a file share what they trained.
WORKERS := $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))
PYTEST = $(VENV)/bin/python -m pytest --numprocesses=$(WORKERS) --maxprocesses=8 --dist=loadfile --no-loadscope-reorder --durations=20
test: $(TOOLS)  # what proves the mathematics, the data, a resumed and a killed run: five to eight minutes
	$(PYTEST) -m "not slow" $(TESTS)

test-slow: $(TOOLS)  # runs of families, contracts of mixers, matrices of kills, meshes, damage
	$(PYTEST) -m "slow and not nightly"

test-all: $(TOOLS)  # both
	$(PYTEST) -m "not nightly"

test-nightly: $(TOOLS)  # these, what is too long for a commit, and matrices of a larger size
	KILLS=20 FUZZ_COPIES=10000 SERVE_REQUESTS=10000 $(PYTEST)

# A model, a part or a task of the registry is held to its contract, a line for each fault:
# make check MODEL=transformer, make check PART=positions/shaw, make check TASK=translation.
OF_PARTS = $(if $(filter mixer/%,$(PART)),test_mixers.py) test_parts.py test_models.py
CHECKED = $(if $(MODEL),test_models.py,$(if $(PART),$(OF_PARTS),$(if $(TASK),test_tasks.py)))
check: $(TOOLS)
	CHECK_MODEL=$(MODEL) CHECK_PART=$(PART) CHECK_TASK=$(TASK) CI=1 JAX_TRACEBACK_FILTERING=tracebackhide \
		$(VENV)/bin/python -m pytest --assert=plain --tb=no -rf \
		$(or $(addprefix tests/conformance/,$(CHECKED)),tests/conformance)

# One run, ended 20 times at random moments; `make test-slow` does so three times.
kill-matrix: $(TOOLS)
	KILLS=20 $(VENV)/bin/python -m pytest -k kill_matrix

# 10,000 damaged copies of a workdir, a model, a sweep and a request; `make test-slow` has 50 each.
fuzz: $(TOOLS)
	FUZZ_COPIES=10000 $(VENV)/bin/python -m pytest tests/whole/test_fuzz.py

# The commands of docs/results.json, one after another: a night on two cores. They read text and
# images in the folders of $TRANSFORMER_TEST_DATA that `python -m docs.tables --commands` names, and
# need: pip install -r benchmarks/requirements.txt rouge-score torch transformers ctranslate2==4.8.5
results: $(TOOLS)
	@: $${TRANSFORMER_TEST_DATA:?is the folder of text and images that the commands read}
	PATH="$(abspath $(VENV))/bin:$$PATH" sh -eux -c "$$($(VENV)/bin/python -m docs.tables --commands)"

docs: $(TOOLS)  # the pages of docs/ and the docstrings as a site, to be read without a network
	$(VENV)/bin/python -m sphinx --quiet -d $(VENV)/doctrees -c docs . site
	@echo "open $(CURDIR)/site/index.html"

lint: $(TOOLS)
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/ruff check

size: $(INSTALLED)  # lines of code of each folder of transformer/
	$(VENV)/bin/python tests/test_size.py

$(INSTALLED): requirements.txt
	$(VENV)/bin/python -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != "$(VERSION)")' 2>/dev/null || \
		$(PYTHON) -m venv --clear $(VENV)
	$(PIP) -r requirements.txt
	touch $@

$(TOOLS): $(INSTALLED) tests/requirements.txt
	$(PIP) -r tests/requirements.txt
	touch $@
