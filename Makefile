# Every target makes .venv first if it is not there: from requirements.lock, with nothing but Python, make and a package index.

.DEFAULT_GOAL := help
.PHONY: help demo test test-long lint format bench mutation docs lock clean

# The interpreter that .venv is made with: the first of these that is Python 3.11 to 3.13.
PYTHON ?= $(shell for candidate in python3 python3.13 python3.12 python3.11 python; do \
	"$$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null \
	&& echo "$$candidate" && break; done)
WORKERS ?= 2
# mkdocs-material announces its successor at every build otherwise.
export NO_MKDOCS_2_WARNING = 1
BIN := .venv/bin
LOCKED := .venv/.locked
INSTALLED := .venv/.installed
QUIET := --quiet --disable-pip-version-check --no-input

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Made anew when the lock changes: packages that left the lock leave the environment too, and half an environment is no environment.
# Exactly what the lock names: a resolver would ask the index for later versions, and stop at the first that has no hash here.
$(LOCKED): requirements.lock
	@test -n "$(PYTHON)" || { echo "sudare needs Python 3.11, 3.12 or 3.13 on the PATH (or make PYTHON=…)." >&2; exit 1; }
	@echo "Making .venv from requirements.lock (once; about a minute) …"
	@$(PYTHON) -m venv --clear .venv
	@$(BIN)/python -m pip install $(QUIET) --require-hashes --no-deps -r requirements.lock
	@$(BIN)/python -m pip check
	@touch $@

$(INSTALLED): $(LOCKED) pyproject.toml
	@$(BIN)/python -m pip install $(QUIET) --no-deps --no-build-isolation -e .
	@touch $@

.venv: $(INSTALLED)

demo: $(INSTALLED)  ## a private release end to end, with a report at demo/report.html
	@$(BIN)/sudare demo

# Two test workers share two cores: a worker's own threads would only wait for each other.
test test-long mutation: export OMP_NUM_THREADS = 1
test test-long mutation: export OPENBLAS_NUM_THREADS = 1
# Two workers and hundreds of processes of tests read the same modules: compiled ones are kept, whatever the shell says.
test test-long: export PYTHONDONTWRITEBYTECODE =
# So are programs of JAX: compiling them takes as long as the training in most tests.
test test-long: export JAX_COMPILATION_CACHE_DIR = $(CURDIR)/.venv/jax_programs
test test-long: export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS = 0
test test-long: export JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES = -1

test: $(INSTALLED)  ## the default test suite; sudare.privacy must be covered to every branch
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --cov --cov-report=term-missing:skip-covered

test-long: $(INSTALLED)  ## the tests that take hours: many crashes, many mutated files, many samples
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m long --timeout=0

lint: $(INSTALLED)  ## formatting, ruff, types, layers, documentation
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/mkdocs build --strict --quiet --site-dir .site

format: $(INSTALLED)  ## format the code and repair what ruff can repair
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(INSTALLED)  ## ratios against peers, into benchmarks/results.json
	@$(BIN)/python -m benchmarks

mutation: $(INSTALLED)  ## which changes of sudare.privacy would no test notice?
	@$(BIN)/mutmut run
	@$(BIN)/python -m tests.mutation_report --write docs/mutation.md

docs: $(INSTALLED)  ## the documentation, into .site/
	@$(BIN)/mkdocs build --strict --site-dir .site
	@echo "Open .site/index.html"

# Spark is half a gigabyte and MLflow brings twenty packages; their tests run where they are installed by hand.
LOCKED_EXTRAS := consortium delta docs duckdb iceberg neural onnx page papers
lock:  ## resolve the dependencies anew, into requirements.lock
	@$(PYTHON) -m venv --clear .venv-lock
	@.venv-lock/bin/python -m pip install $(QUIET) uv
	@.venv-lock/bin/uv pip compile --quiet --upgrade --universal --fork-strategy fewest --python-version 3.11 --generate-hashes \
		--no-header --no-emit-index-url --no-emit-find-links $(addprefix --extra ,$(LOCKED_EXTRAS)) --group dev \
		--output-file requirements.lock pyproject.toml
	@rm -rf .venv-lock

clean:  ## remove everything that make made
	rm -rf .venv .venv-lock .venv-peers .venv-flower .venv-opendp .venv-aim .venv-opacus .site build dist demo results mutants .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
