# Needs Python 3.11 or newer, make and pip. Everything else is installed into .venv, once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SITE := .venv-site
STAMP := $(VENV)/.gradcheck-installed
BROWSER := $(VENV)/.browser-found
TIMES := 1
DRAWS := 10

.PHONY: help demo test test-all plain fuzz draws snapshots lint style types compiled format docs site bench clean

help:
	@echo "make demo    run the example specs on the reference engine, PyTorch, TensorFlow and JAX"
	@echo "make test    run the tests, but for the exhaustive ones, as CI does"
	@echo "make test-all  run all tests: every row and draw on every engine, and every fuzzer"
	@echo "make plain   compare verdicts with those of frameworks in which nothing is replaced"
	@echo "make fuzz    10,000 random specs, formulas, backwards, odd and hostile layers and signals; TIMES=10: 100,000"
	@echo "make draws   run the tests that draw their examples, with fresh draws, DRAWS=10 times"
	@echo "make lint    ruff, mypy, the layer contracts, and vulture for what nothing uses"
	@echo "make format  let ruff format the code"
	@echo "make docs    write docs/codes, docs/ops and docs/reference anew"
	@echo "make site    build the documentation as a site in .site; a broken link fails"
	@echo "make bench   measure what is claimed about speed, and what is found in known cases"
	@echo "make snapshots  store the screens and reports of tests/cli and tests/report anew"
	@echo "make clean   remove .venv and caches"

# The examples hold gradients that fail, which is what they show: findings do not fail the demo.
demo: compiled
	$(BIN)/gradcheck run specs/examples specs/layers/code --exit-zero

# Three workers on two cores, as a test that waits for a process leaves its own idle.
test: compiled $(BROWSER)
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "not exhaustive"

test-all: compiled $(BROWSER)
	$(BIN)/python -m pytest -n 3 --dist worksteal

plain: compiled
	$(BIN)/python benchmarks/verdicts.py plain

fuzz: compiled
	$(BIN)/python -m tests.fuzz --times $(TIMES)

draws: $(STAMP)
	for _ in $$(seq $(DRAWS)); do FRESH_DRAWS=1 $(BIN)/python -m pytest -q -n 2 -m hypothesis || exit 1; done

snapshots: $(STAMP)
	UPDATE_SNAPSHOTS=1 $(BIN)/python -m pytest -q tests/cli tests/report

lint: style types

style: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/vulture

types: $(STAMP)
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP)
	$(BIN)/python docs/generate.py

site: $(SITE)/bin/zensical
	$(SITE)/bin/zensical build --clean --strict

bench: $(STAMP)
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/compiled.py
	$(BIN)/python benchmarks/cache.py
	$(BIN)/python benchmarks/replacements.py
	$(BIN)/python benchmarks/autodiff.py
	$(BIN)/python benchmarks/truth.py
	$(BIN)/python benchmarks/eigen.py
	$(BIN)/python benchmarks/cases.py
	$(BIN)/python benchmarks/labelled.py
	$(BIN)/python benchmarks/many_layers.py
	$(BIN)/python benchmarks/jobs.py
	$(BIN)/python benchmarks/large_layer.py
	$(BIN)/python benchmarks/lifted_layer.py
	$(BIN)/python benchmarks/layers.py
	$(BIN)/python benchmarks/small_layers.py
	$(BIN)/python benchmarks/small_layers.py --framework jax
	$(BIN)/python benchmarks/second_order.py
	$(BIN)/python benchmarks/plugin.py
	$(BIN)/python benchmarks/explanations.py
	$(BIN)/python benchmarks/search.py

clean:
	rm -rf $(VENV) $(SITE) .site .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

# pip compiles on one processor, compileall on all, and leaves out what no run imports. Files of packages
# that are written for another Python do not compile, which pip passes over as well.
$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "gradcheck needs Python 3.11 or newer, and there is no $(PYTHON) here." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else "gradcheck needs Python 3.11 or newer; $(PYTHON) is %d.%d. Name another: make PYTHON=python3.11" % (v[0], v[1]))'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet --no-compile -c constraints.txt -e '.[all,dev]'
	$(BIN)/python -m compileall -qq -j 0 -x '/(tests|pip|mypy|mypyc|setuptools)/' $(VENV)/lib || true
	touch $(STAMP)

# Python does so itself, unless an image forbids it: every worker would then compile what has changed.
compiled: $(STAMP)
	@$(BIN)/python -m compileall -q gradcheck_cli reference_engine

# The site has an environment of its own: what builds it needs nothing of the project.
$(SITE)/bin/zensical: constraints.txt
	$(PYTHON) -m venv $(SITE)
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(SITE)/bin/python -m pip install --quiet -c constraints.txt zensical
	touch $@

# The pages of the HTML report are tested in Chromium. On a fresh machine that is Debian's, where we may install it.
$(BROWSER): $(STAMP)
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; } || \
	  { echo "The tests of the HTML report need Chromium, and there is none here: apt-get install chromium" >&2; exit 1; }
	touch $(BROWSER)
