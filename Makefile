# Every target works on a fresh clone: it installs what it needs first.
#   make demo         run the service with generated data
#   make test         run the tests              make test TEST_ARGS="-x tests/integration/state"
#   make test-release run the other tests: more databases and buckets, clusters, many kills, all documentation examples
#   make test-unit    run the unit tests (Python packages only, under a minute)
#   make test-random  run the property tests with random seeds
#   make coverage     run the unit tests, and fail if they cover less than the floor in pyproject.toml
#   make check        check style, types, imports, generated pages, spelling, wording, and the rules of the repository
#   make format       format the code
#   make reference    write the generated pages of docs/
#   make docs         build the documentation site in build/docs
#   make bench        run the benchmarks
#   make lock         update the lock files
#   make check-api    compare the public API of the client with AGAINST=origin/main
#   make release      build the packages and the bill of materials of TAG
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
# A third of the time of a test process is waiting: for timeouts, starts and other processes. So there are more of them
# than processors.
WORKERS ?= $(shell echo $$(( ($$(getconf _NPROCESSORS_ONLN) * 3 + 1) / 2 )))
TEST_ARGS ?=
BENCH_ARGS ?= all --write
AGAINST ?= origin/main
TAG ?=

.PHONY: help setup system npm duckdb check-api coverage release test-newest test-next-duckdb test-oldest demo test test-release test-unit test-random check bench docs lock sbom reference format clean

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

# DuckDB 1.5 for a release test: the version of the lock file has no packages of extensions.
duckdb: $(DEV)
	@tools/setup-duckdb $(VENV)

demo: $(SERVER)
	@$(BIN)/daybreakd demo

test: $(DEV) system npm
	$(PYTEST) -n $(WORKERS) --durations 15 -m "not release" $(TEST_ARGS)

test-release: $(DEV) system npm duckdb
	$(PYTEST) -n $(WORKERS) --durations 15 -m release $(TEST_ARGS)

test-unit: $(UNIT)
	$(PYTEST) -n auto -q tests/unit $(TEST_ARGS)

test-random: $(DEV) system npm
	HYPOTHESIS_PROFILE=random $(PYTEST) -n $(WORKERS) -m hypothesis $(TEST_ARGS)

coverage: $(UNIT)
	$(PYTEST) -n auto -q tests/unit --cov $(TEST_ARGS)

# With the next version of DuckDB, or with the newest version of every package: early warnings, not in the lock files.
test-next-duckdb: $(DEV) system npm
	$(BIN)/python -m pip install --upgrade --pre --no-deps duckdb
	$(PYTEST) -n $(WORKERS) -m "not release" tests/unit tests/integration $(TEST_ARGS)

test-newest:
	UPGRADE=1 $(MAKE) lock
	$(MAKE) test-unit

# With the oldest versions of the client's dependencies that pyproject.toml accepts.
test-oldest: $(DEV)
	$(BIN)/python -m pip install \
	    $$(sed -n '/^dependencies/,/^]/s/^ *"\([a-z]*\)>=\([0-9.]*\)".*/\1==\2/p' pyproject.toml)
	$(PYTEST) -n $(WORKERS) tests/unit/client tests/unit/cli $(TEST_ARGS)

check: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/python -m tools.prose
	$(PYTEST) -q -n $(WORKERS) tests/repository

# Prints every change of `daybreak_client` that breaks its callers, and fails if there is one.
check-api: $(DEV)
	$(BIN)/griffe check daybreak_client --search src --against $(AGAINST)

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

# With the locked build tools, so that the same commit builds the same packages.
release: $(DEV)
	@test "$(TAG)" = "v$$($(BIN)/daybreakd --version)" || { echo "TAG is not v$$($(BIN)/daybreakd --version)."; exit 1; }
	rm -rf dist
	$(BIN)/uv build --no-build-isolation --python $(BIN)/python
	$(MAKE) sbom

clean:
	rm -rf $(VENV) build dist .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
