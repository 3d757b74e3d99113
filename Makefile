# Everything runs from .venv, which the first target that needs it makes; nothing has to be activated.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
COMPILED := .venv-compiled
COMPILED_INSTALL := $(COMPILED)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

FRAMES ?= 1000000

.DEFAULT_GOAL := help
.PHONY: help setup test test-brokers test-pipeline compiled slow sim chaos fuzz pythons demo lint format bench bench-net bench-steps bench-memory bench-pipeline reproduce docs clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

setup: $(VENV)/.ready ## make .venv and install byway with its pinned development tools

# Both at a time: many tests of brokers wait more than they compute. Spark is started once.
test: $(VENV)/.ready ## run the default test suite, on all cores
	@$(MAKE) --no-print-directory --jobs=2 test-brokers test-pipeline

test-brokers: $(VENV)/.ready
	$(BIN)/pytest -n auto -m "not slow and not pipeline"

test-pipeline: $(VENV)/.ready
	$(BIN)/pytest -m "pipeline and not slow"

slow: $(VENV)/.ready ## run the tests marked slow
	$(BIN)/pytest -m "slow and not sim"

sim: $(VENV)/.ready ## run thousands of random networks with faults
	$(BIN)/pytest -m "slow and sim" -s

fuzz: $(VENV)/.ready ## attack live brokers with FRAMES hostile frames: three quarters of an hour
	$(BIN)/python -m tests.hostile.fuzz --frames $(FRAMES)

# One round again: .venv/bin/python -m tests.chaos --seed N --rounds 1
chaos: $(VENV)/.ready ## kill, stop and starve real brokers for 200 rounds and count what arrives: an hour
	$(BIN)/python -m tests.chaos $(CHAOS)

pythons: ## try each of Python 3.11 to 3.13 that is here, in an environment of its own
	@$(PYTHON) .ci/pythons.py

demo: $(VENV)/.ready ## show byway at work: live, simulated, analysed by Spark
	$(BIN)/byway demo

lint: $(VENV)/.ready ## check style, formatting, types and import contracts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

compiled: $(COMPILED)/.ready ## make .venv-compiled, with byway's hottest modules compiled to C, and test it there
	$(COMPILED)/bin/pytest -n auto -m "not pipeline and not slow" tests/golden tests/property tests/sim tests/unit/core tests/unit/inbox tests/unit/session tests/unit/sim tests/unit/storage

format: $(VENV)/.ready ## fix what ruff can fix and format the code
	$(BIN)/ruff check --fix --exit-zero
	$(BIN)/ruff format

bench: $(VENV)/.ready ## measure matching, the broker, the simulator and the mesh
	$(BIN)/python -m benches.matching
	$(BIN)/python -m benches.broker
	$(BIN)/python -m benches.mesh

bench-net: $(VENV)/.ready ## measure live brokers over TCP, beside NATS and RabbitMQ if they are there
	$(BIN)/python -m benches.net

bench-steps: $(VENV)/.ready ## measure where the time of a publication goes, live and simulated
	$(BIN)/python -m benches.steps

bench-memory: $(VENV)/.ready ## measure what brokers hold after clients and filters went: three quarters of an hour
	$(BIN)/python -m benches.memory

bench-pipeline: $(VENV)/.ready ## measure the pipeline on Spark
	$(BIN)/python -m benches.pipeline

reproduce: $(VENV)/.ready ## measure again what the documents claim, in published sizes: hours
	$(BIN)/byway reproduce --full

docs: $(VENV)/.docs-ready ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir site

clean: ## remove what was built and cached, but not .venv
	rm -rf build dist site .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests benches -name __pycache__ -prune -exec rm -rf {} +

# What builds byway (hatchling) and Spark, which comes as source (setuptools), is installed first, from
# the same pins: builds fetch nothing else, and do not depend on what pip happens to have cached.
$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "byway needs Python 3.11 or newer, but '$(PYTHON)' is: $$($(PYTHON) --version 2>&1)" >&2; \
		echo "name another one with: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) hatchling setuptools
	$(PIP_INSTALL) --no-build-isolation --editable '.[dev]'
	@touch $@

# From a source archive: what is compiled must not lie beside the sources, where it would be used instead of them.
$(COMPILED)/.ready: $(VENV)/.ready $(shell find src -name '*.py')
	rm -rf build/compiled
	$(BIN)/python -m hatchling build -t sdist -d build/compiled
	test -d $(COMPILED) || $(PYTHON) -m venv $(COMPILED)
	$(COMPILED_INSTALL) hatchling hatch-mypyc mypy msgspec numpy setuptools
	HATCH_BUILD_HOOK_ENABLE_MYPYC=true $(COMPILED_INSTALL) --no-build-isolation --force-reinstall --no-deps build/compiled/*.tar.gz
	$(COMPILED_INSTALL) --no-build-isolation "byway[dev]"
	@touch $@

$(VENV)/.docs-ready: $(VENV)/.ready
	$(PIP_INSTALL) --no-build-isolation --editable '.[docs]'
	@touch $@
