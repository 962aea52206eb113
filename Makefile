# Every target works on a fresh clone: it installs what it needs first.
#   make demo         run the service with generated data
#   make test         run the tests              make test TEST_ARGS="-x tests/integration/state"
#   make test-release run the long versions of tests: clusters, many kills, all examples of the documentation
#   make test-unit    run the unit tests (Python packages only, under a minute)
#   make test-random  run the property tests with random seeds
#   make check        check style, types, imports, generated pages, spelling and wording
#   make format       format the code
#   make reference    write the generated pages of docs/
#   make docs         build the documentation site in build/docs
#   make bench        run the benchmarks
#   make lock         update the lock files
#   make sbom         write the software bill of materials to build/sbom.json
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= $(shell tools/find-python)
VENV := .venv
BIN := $(VENV)/bin
SERVER := $(VENV)/.server-ready
UNIT := $(VENV)/.unit-ready
DEV := $(VENV)/.dev-ready
# Tests start the service many times. Without compiled modules each start takes seconds longer.
unexport PYTHONDONTWRITEBYTECODE
# Hash order decides the order of some generated tests, and all test processes must collect the same order.
# An idle process takes tests from the end of another's queue, so both end at the same time.
PYTEST := PYTHONHASHSEED=0 $(BIN)/python -m pytest --dist worksteal
TEST_ARGS ?=
BENCH_ARGS ?= all --write

.PHONY: help setup system npm demo test test-release test-unit test-random check bench docs lock sbom reference format clean

help:
	@sed -n 's/^#   //p' Makefile

setup: $(DEV) system npm

# The three lock files contain each other, so each target also satisfies the ones before it.
$(SERVER): requirements.lock pyproject.toml tools/setup-python
	@tools/setup-python "$(PYTHON)" $(VENV) requirements.lock
	@touch $@

$(UNIT): requirements-unit.lock pyproject.toml tools/setup-python
	@tools/setup-python "$(PYTHON)" $(VENV) requirements-unit.lock
	@touch $(SERVER) $@

$(DEV): requirements-dev.lock pyproject.toml tools/setup-python
	@tools/setup-python "$(PYTHON)" $(VENV) requirements-dev.lock
	@touch $(SERVER) $(UNIT) $@

# Debian packages that tests start: browser, Java, web server.
system:
	@tools/setup-system test

# An Azure emulator and an OpenID Connect provider, from npm. Tests that need them are skipped without them.
npm: $(DEV)
	@tools/setup-npm $(VENV)

demo: $(SERVER)
	@$(BIN)/daybreakd demo

test: $(DEV) system npm
	$(PYTEST) -n 2 --durations 15 -m "not release" $(TEST_ARGS)

test-release: $(DEV) system npm
	$(PYTEST) -n 2 --durations 15 -m release $(TEST_ARGS)

test-unit: $(UNIT)
	$(PYTEST) -n auto -q tests/unit $(TEST_ARGS)

test-random: $(DEV) system npm
	HYPOTHESIS_PROFILE=random $(PYTEST) -n 2 -m hypothesis $(TEST_ARGS)

check: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.reference --check
	$(BIN)/codespell
	$(BIN)/python -m tools.prose

bench: $(DEV)
	@tools/setup-system bench
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

reference: $(DEV)
	$(BIN)/python -m tools.reference

# Broken links and anchors are errors.
docs: $(DEV)
	$(BIN)/zensical build --clean --strict

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: $(DEV)
	@tools/lock $(BIN)/uv

# Reads the installed packages for their licenses.
sbom: $(DEV)
	@$(BIN)/python -m tools.sbom

clean:
	rm -rf $(VENV) build dist .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
