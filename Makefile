.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
DEMO_ARGS ?=
SERVE_ARGS ?=

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

$(BIN)/python:
	$(PYTHON) -m venv .venv

.venv/.installed: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[figures]'
	@touch $@

.venv/.installed-dev: .venv/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: .venv/.installed  ## install, then stream the shipped data through MomentHash with and without the trigger
	$(BIN)/mihash demo $(DEMO_ARGS)

serve: .venv/.installed  ## install the service, then serve an index that feeds itself: http://127.0.0.1:8000
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[figures,service]'
	$(BIN)/mihash serve --demo $(SERVE_ARGS)

test: .venv/.installed-dev  ## install, then run every test
	$(BIN)/python -m pytest -q -n 2 --max-worker-restart=0

test-adapters: .venv/.installed  ## install the libraries of the adapters (LangChain, LanceDB, Kafka, ...) and test them
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test-adapters]'
	$(BIN)/python -m pytest -q tests/io/adapters src/mihash/io/adapters docs/adapters.md

test-all:  ## the tests on Python 3.11 to 3.14, as far as they are here, and on the oldest dependencies
	$(PYTHON) .ci/test-all

portable: .venv/.installed-dev  ## the tests of the same bits, with the kernels of other processors
	$(BIN)/python -m pytest -q -n 2 --max-worker-restart=0 -m portable tests/test_portable.py

hosts: .venv/.installed-dev  ## the tests of an index on three hosts, which this machine plays; they need root
	$(BIN)/python -m pytest -q -m hosts tests/store/test_ray_hosts.py

check: .venv/.installed-dev  ## the tests, and what keeps the code honest: ruff, mypy, import-linter, other kernels
	$(BIN)/ruff check src tests benchmarks soak
	$(BIN)/ruff format --check src tests benchmarks soak
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q -n 2 --max-worker-restart=0
	$(MAKE) portable

docs: .venv/.installed  ## build the documentation into site/, strictly, and without the network
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

bench: .venv/.installed-dev  ## speed as ratios against peers and floors, measured in one process
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[bench]"
	$(BIN)/python -m benchmarks

clean:  ## remove the environment and every cache
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis site

.PHONY: help demo serve test test-adapters test-all portable hosts check docs bench clean
