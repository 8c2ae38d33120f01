# Every target works from any folder: make -C PATH TARGET.
.DEFAULT_GOAL := help
SHELL := /bin/sh

ROOT := $(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))
VENV := $(ROOT)/.venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	command -v $$p >/dev/null 2>&1 && \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; \
	done)

.PHONY: help setup demo test check bench clean

help:  ## Show the targets.
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' "$(ROOT)/Makefile"

setup: $(STAMP)  ## Create .venv and install the project with its tools.

$(STAMP): $(ROOT)/pyproject.toml
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or later on PATH (or say make PYTHON=...)" >&2; exit 1; }
	test -x "$(BIN)/python" || $(PYTHON) -m venv "$(VENV)"
	cd "$(ROOT)" && "$(BIN)/python" -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch "$@"

demo: $(STAMP)  ## Divide Google's machine park by every mechanism; writes demo/report.html.
	@mkdir -p "$(ROOT)/demo"
	@echo "Sixteen teams share 12,583 servers, by every mechanism:"
	@cd "$(ROOT)" && "$(BIN)/fairlead" compare examples/google-park.yaml --report demo/report.html
	@echo
	@echo "The same with placement constraints and finite tasks:"
	@cd "$(ROOT)" && "$(BIN)/fairlead" compare examples/google-park-constrained.yaml --report demo/constrained.html
	@echo
	@echo "Who holds what, to look at in a browser:"
	@echo "  $(ROOT)/demo/report.html"
	@echo "  $(ROOT)/demo/constrained.html"

test: $(STAMP)  ## Run the tests.
	cd "$(ROOT)" && "$(BIN)/python" -m pytest -n 2 tests

check: $(STAMP)  ## Lint, check the format, the types and the layers.
	cd "$(ROOT)" && "$(BIN)/ruff" check .
	cd "$(ROOT)" && "$(BIN)/ruff" format --check .
	cd "$(ROOT)" && "$(BIN)/mypy"
	cd "$(ROOT)" && "$(BIN)/lint-imports"

bench: $(STAMP)  ## Run the benchmarks.
	cd "$(ROOT)" && "$(BIN)/python" -m pytest benchmarks

clean:  ## Remove the environment and everything that was built.
	rm -rf "$(VENV)" "$(ROOT)/demo" "$(ROOT)/build" "$(ROOT)/dist" "$(ROOT)"/src/*.egg-info
	rm -rf "$(ROOT)/.mypy_cache" "$(ROOT)/.ruff_cache" "$(ROOT)/.pytest_cache" "$(ROOT)/.hypothesis" "$(ROOT)/.import_linter_cache" "$(ROOT)/.benchmarks"
	find "$(ROOT)/src" "$(ROOT)/tests" -name __pycache__ -type d -prune -exec rm -rf {} +
