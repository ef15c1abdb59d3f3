# make demo    solve an equation and look at it        make test      checks, in five minutes
# make setup   .venv with the separax command          make test-all  what make test leaves out
# make docs    build the pages into site/              make clean     remove what these made
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
PYTEST = $(BIN)/python -m pytest -n $(WORKERS)

.PHONY: demo test test-all check docs format slow setup clean

demo: $(VENV)/.separax
	@$(BIN)/separax solve helmholtz
	@echo "Open the page above in a browser to look at the solution, its error and the loss curve."

test: check
	$(PYTEST)

test-all: $(VENV)/.dev
	$(PYTEST) -m "whole and not slow"

check: docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

slow: $(VENV)/.dev
	JAX_DISABLE_MOST_OPTIMIZATIONS=0 $(PYTEST) -m slow

setup: $(VENV)/.separax

$(VENV)/.separax: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "separax needs Python 3.11 or newer; name one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.separax
	$(BIN)/python -m pip install --quiet --group dev
	@touch $@

clean:
	rm -rf $(VENV) build dist site .pytest_cache .ruff_cache
