# Everything here works first on a fresh clone: each target sets up what it needs.
#   make demo      see it run
#   make test      all tests            make test TEST_ARGS="-x tests/unit"
#   make check     style, types, floors, documentation
#   make bench     measure, beside peers
#   make lock      renew the lock files
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= $(shell tools/find-python)
VENV := .venv
BIN := $(VENV)/bin
SERVER := $(VENV)/.server-ready
DEV := $(VENV)/.dev-ready
# Some machines tell Python to forget what it compiled; starting a server many times would then take minutes.
unexport PYTHONDONTWRITEBYTECODE
TEST_ARGS ?=
BENCH_ARGS ?= all --write

.PHONY: help setup system azurite demo test check bench lock reference format clean

help:
	@sed -n 's/^#   //p' Makefile

setup: $(DEV) system azurite

# What the service runs on, and no more: the demo needs nothing else.
$(SERVER): requirements.lock pyproject.toml tools/setup-python
	@tools/setup-python "$(PYTHON)" $(VENV) requirements.lock
	@touch $@

# That, and what tests and checks need.
$(DEV): requirements-dev.lock pyproject.toml tools/setup-python
	@tools/setup-python "$(PYTHON)" $(VENV) requirements-dev.lock
	@touch $(SERVER) $@

# Programs that only tests start: browser, Java, web server.
system:
	@tools/setup-system test

# The store that tests of Azure speak to; without npm's registry they are skipped.
azurite: $(DEV)
	@tools/setup-azurite $(VENV)

demo: $(SERVER)
	@$(BIN)/daybreakd demo

# Both test processes must list the same tests in the same order; sets are ordered by this seed.
test: $(DEV) system azurite
	PYTHONHASHSEED=0 $(BIN)/python -m pytest -n 2 --dist loadfile --durations 15 $(TEST_ARGS)

check: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.reference --check

bench: $(DEV)
	@tools/setup-system bench
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

reference: $(DEV)
	$(BIN)/python -m tools.reference

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Hashes, and no address of any registry: whoever installs decides where from.
lock: $(DEV)
	@tools/lock $(BIN)/uv

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
