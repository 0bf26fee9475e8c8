# Everything is installed in .venv and .venv-agents at the root of the repository; nothing else on the machine is
# changed, except that `make test` as root brings the browser its tests need through apt-get.
#
# On a machine without the CPU build of torch at hand, pip on Linux takes the CUDA build (about 3 GB) that PyPI has.
# An index with CPU builds makes the installation small:
#     make serve TORCH_INDEX=https://download.pytorch.org/whl/cpu

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?=
TORCH_INDEX ?=
ARGS ?=

# Every process that is started here imports torch: without bytecode at hand that takes seconds more of a core.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --no-compile $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))

.PHONY: help install serve test test-long agents lint format system-packages clean

help:  ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */  make \1\t/' | expand -t 18

install: .venv/installed  ## set up .venv with the service and its small models

serve: .venv/installed  ## install, then serve on http://127.0.0.1:8700 (ARGS="..." goes to speechlane serve)
	@exec $(BIN)/speechlane serve $(ARGS)

test: .venv/installed-test system-packages lint  ## what must hold after every change; the last line is pytest's
	@$(BIN)/python -m pytest -n 2 --dist loadfile -m 'not long'

test-long: .venv/installed-test system-packages  ## tests that take many seconds each, of Ray clusters, LiveKit Agents and Pipecat
	@$(PIP) --quiet -c constraints.txt -e '.[models,test,cluster]' || echo "The tests of clusters are skipped." >&2
	@$(MAKE) --no-print-directory agents || echo "Their tests are skipped." >&2
	@$(BIN)/python -m pytest -m long

agents: .venv-agents/installed  ## LiveKit Agents and Pipecat in .venv-agents, for the tests that run them

lint: .venv/installed-test  ## ruff, mypy --strict, import rules between the rooms
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

format: .venv/installed-test  ## bring the code into the form that lint asks for
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean:  ## remove what make made
	rm -rf .venv .venv-agents build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The first Python of this list that is new enough and not too new. The stamp is set when pip is there as well, so that
# an interrupted set-up goes on where it was.
.venv/created:
	@for python in $(or $(PYTHON),python3 python3.13 python3.12 python3.11); do \
	  if $$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then \
	    echo "Creating .venv with $$($$python --version)"; \
	    if $$python -m venv .venv && touch $@; then exit 0; fi; \
	    echo "Python could not create a virtual environment. On Debian and Ubuntu: apt-get install python3-venv" >&2; \
	    exit 1; \
	  fi; \
	done; \
	echo "Speechlane needs Python 3.11, 3.12 or 3.13, but found: $$($(or $(PYTHON),python3) --version 2>&1 || true)" >&2; \
	echo "Install one of them and name it: make $(or $(MAKECMDGOALS),install) PYTHON=python3.12" >&2; \
	exit 1

.venv/installed: pyproject.toml constraints.txt | .venv/created
	@echo "Installing Speechlane in .venv (the first time takes a few minutes)"
	@$(PIP) -c constraints.txt -e '.[models,embeddings,collections,documents,vision,load]'
	@touch $@

.venv/installed-test: .venv/installed
	@$(PIP) -c constraints.txt -e '.[models,test]'
	@touch $@

# Nothing is compiled ahead: most of what comes along is never imported.
.venv-agents/installed: tests/gateway/agents/requirements.txt | .venv/created
	@echo "Installing LiveKit Agents and Pipecat in .venv-agents (about 20 s, 700 MB)"
	@$(BIN)/python -m venv --without-pip --clear .venv-agents
	@$(BIN)/python -m pip --python .venv-agents/bin/python install --disable-pip-version-check --quiet --no-compile --no-deps -r $<
	@touch $@

# The browser tests drive Chromium through its driver.
system-packages:
	@if command -v chromedriver >/dev/null && command -v chromium >/dev/null; then \
	  exit 0; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "Installing Chromium for the browser tests"; \
	  apt-get update -qq </dev/null; \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver </dev/null; \
	else \
	  echo "The browser tests need chromium and chromedriver on the PATH. Install them first; on Debian and Ubuntu:" >&2; \
	  echo "  sudo apt-get install chromium chromium-driver" >&2; \
	  exit 1; \
	fi
