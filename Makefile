# Two commands on a fresh machine: `make demo` and `make test`. Only python3 and make are needed.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help demo test test-slow walk test-oldest test-newest lint format docs paper bench bench-gpu \
  clean
help:
	@echo "make demo    cluster 1,797 handwritten digits with DCFSC and score the result"
	@echo "make test    the test suite        make lint    ruff, types, imports, spelling, links"
	@echo "make test-slow   the tests with many processes, kills and a browser"
	@echo "make walk    every command at every kind of target, and killed; forged runs and models"
	@echo "make format  ruff's formatter      make clean   remove the virtual environment"
	@echo "make docs    the documentation as a site, in docs/_build/html"
	@echo "make test-oldest, make test-newest    the tests with the oldest and newest dependencies"
	@echo "make paper   the tables and figures of the paper from the cells in results/"
	@echo "make bench   measure again, on two cores; make bench-gpu on CUDA"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) "torch==$$(sed -n 's/^torch==//p' constraints.txt)"
	$(PIP) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	$(PIP) -e ".[dev]"
	@touch $@

demo: $(VENV)/.run
	$(BIN)/dcfsc fit digits -k 10 --out runs/digits --overwrite

# a file's tests stay in one process, which makes what they share once
TESTS := -m pytest -n auto --dist loadfile --no-loadscope-reorder -q
# Tests start many processes: with compiled files they do not parse the package again, even where the
# environment says that none should be written.
test: $(VENV)/.dev
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python $(TESTS) -m "not slow"

test-slow: $(VENV)/.dev
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python $(TESTS) -m slow

# minutes; the tests walk a fixed part of it
walk: $(VENV)/.dev
	$(BIN)/python tests/reliability/walk.py --every 1 --json results/benchmarks/walk.json
	$(BIN)/python tests/reliability/forged.py --count 1000 --json results/benchmarks/forged.json

# each in an environment of its own: the lower bounds of pyproject.toml, and what pip takes today
.venv-%/.test: pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv --clear .venv-$*
	.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check \
	  $(patsubst %,-c %,$(wildcard constraints-$*.txt)) -e ".[test]"
	@touch $@

.PRECIOUS: .venv-%/.test
test-oldest test-newest: test-%: .venv-%/.test
	OMP_NUM_THREADS=1 .venv-$*/bin/python $(TESTS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/python docs/links.py
	$(BIN)/python docs/example_types.py

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# warnings are errors: a broken link, a page that nothing leads to, an example that fails
docs: $(VENV)/.dev
	$(BIN)/python docs/results_page.py
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html

# Every committed table and figure, from the cells in results/; what has none is computed. Of views,
# not all cells were ever computed: naming some that were draws the table of all that are there.
PAPER := eyaleb orl coil100 lambda parameters memory hopkins155
TWO_CORES := --datasets digits,orl --device cpu --trials 3 --methods views,closed-form
paper: $(VENV)/.dev
	for name in $(PAPER); do $(BIN)/python -m research reproduce $$name || exit 1; done
	$(BIN)/python -m research reproduce views --datasets orl --methods views
	$(BIN)/python -m research reproduce views $(TWO_CORES) --out results/two_cores

# ONLY="peers.json cuts.json" names some
bench: $(VENV)/.dev
	$(BIN)/python -m research bench cpu $(ONLY)

bench-gpu: $(VENV)/.dev
	$(BIN)/python -m research bench cuda $(ONLY)

clean:
	rm -rf $(VENV) .venv-oldest .venv-newest .pytest_cache .ruff_cache .mypy_cache docs/_build docs/examples docs/results.md
