# Everything here works first on a fresh clone: each target sets up what it needs.
#   make demo      see it run
#   make test      all tests            make test TEST_ARGS="-x tests/unit"
#   make check     style, types, floors, documentation
#   make bench     measure, beside peers
#   make lock      renew requirements.lock from pyproject.toml
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= $(shell tools/find-python)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-done
TEST_ARGS ?=
BENCH_ARGS ?=

.PHONY: help setup system demo test check bench lock reference format clean

help:
	@sed -n 's/^#   //p' Makefile

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml tools/setup-python tools/setup-system
	@tools/setup-system run
	@tools/setup-python "$(PYTHON)" $(VENV)
	@touch $@

# Programs that only tests and benchmarks start: databases, browser, Java.
system:
	@tools/setup-system test

demo: $(STAMP)
	@$(BIN)/daybreakd demo

test: $(STAMP) system
	$(BIN)/python -m pytest -n 2 --dist loadfile $(TEST_ARGS)

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.reference --check

bench: $(STAMP)
	@tools/setup-system bench
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

reference: $(STAMP)
	$(BIN)/python -m tools.reference

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Hashes, and no address of any registry: whoever installs decides where from.
lock: $(STAMP)
	@tools/lock $(BIN)/uv

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
