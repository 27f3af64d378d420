# OME Rollouts. A fresh machine needs make and Python 3.11 or newer; every target installs what it needs into .venv,
# from locks with hashes. Nothing has to be activated.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PROTOS := $(shell find protos/ome -name '*.proto')
WORKERS ?= 2
ARGS ?=

.PHONY: help run test lint types contracts unit bench proto baseline docs lock clean

help: ## List the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 20

run: $(VENV)/.run $(VENV)/.suite ## Start everything on this machine and tell the story (ends by itself without a terminal)
	@$(BIN)/ome-sandbox demo $(ARGS)

test: lint types contracts unit ## Everything that is checked before a change goes in

lint: $(VENV)/.dev $(VENV)/.suite ## ruff, and the arrows between packages
	@$(BIN)/ruff check .
	@$(BIN)/lint-imports

types: $(VENV)/.dev $(VENV)/.suite ## mypy, strict
	@$(BIN)/mypy
	@$(BIN)/mypy tools protos/hatch_build.py docs/examples

contracts: $(VENV)/.dev ## buf: lint, and no breaking change against protos/baseline.binpb
	@$(BIN)/buf lint protos
	@$(BIN)/buf breaking protos --against protos/baseline.binpb

unit: $(VENV)/.dev $(VENV)/.suite ## pytest alone; pass arguments with ARGS="tests/unit -k name"
	@PATH="$$PATH:$$($(BIN)/python tools/kubectl.py)" $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -ra $(ARGS)

bench: $(VENV)/.dev $(VENV)/.suite ## Figures with their bars, as ratios
	@$(BIN)/python -m pytest -m perf -s tests/perf $(ARGS)

proto: ## Build the stubs from protos/ and install them
	@rm -f $(VENV)/.suite
	@$(MAKE) --no-print-directory $(VENV)/.run $(VENV)/.suite

baseline: $(VENV)/.dev ## Accept the contracts as they are as the ones that must not break (at a release)
	@$(BIN)/buf build protos --exclude-source-info -o protos/baseline.binpb

docs: $(VENV)/.dev $(VENV)/.suite ## Write docs/settings.md from the settings classes
	@$(BIN)/python tools/settings_page.py

lock: $(VENV)/.dev ## Compile locks/ anew from what pyproject.toml declares
	@$(BIN)/python tools/lock.py

clean: ## Remove what was built and installed here
	@rm -rf $(VENV) .sandbox build dist protos/dist protos/stubs .mypy_cache .pytest_cache .ruff_cache .hypothesis \
		.import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What the processes need, and what builds the two distributions.
$(VENV)/.run: locks/run.txt locks/build.txt tools/venv.sh
	@tools/venv.sh $(VENV)
	@echo "Installing what the processes need into $(VENV)"
	@$(PIP) --require-hashes -r locks/build.txt -r locks/run.txt
	@touch $@

# The same and what the checks need.
$(VENV)/.dev: locks/dev.txt $(VENV)/.run
	@echo "Installing what the checks need into $(VENV)"
	@$(PIP) --require-hashes -r locks/dev.txt
	@touch $@

# The stubs and the suite itself, built with what is locked (no build isolation), nothing fetched.
$(VENV)/.suite: $(PROTOS) protos/pyproject.toml protos/hatch_build.py pyproject.toml | $(VENV)/.run
	@echo "Building the stubs and installing the suite into $(VENV)"
	@$(PIP) --no-deps --no-build-isolation --force-reinstall ./protos
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@
