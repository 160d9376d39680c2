# make run    serve the built-in demo (ARGS="--config FILE" serves something else)
# make test   lint, types and every test
# make bench  the benchmarks of doc/performance.md (ARGS="--write --minutes 10 prometheus" does one of them anew)
# make clean  remove all that these made
#
# They set up what they need in .venv; PYTHON=... chooses the Python that it is made with.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
PYTEST_ARGS ?= -q -rs

.PHONY: run test bench clean
.DELETE_ON_ERROR:

run: $(VENV)/installed
	@exec $(BIN)/fakedev serve $(ARGS)

test: $(VENV)/installed-for-tests
	$(BIN)/ruff check .
	$(BIN)/mypy --config-file setup.cfg
	PYTHONPATH=. $(BIN)/python -m pytest $(PYTEST_ARGS) -m "not real" --numprocesses auto --dist worksteal
	PYTHONPATH=. $(BIN)/python -m pytest $(PYTEST_ARGS) -m real

bench: $(VENV)/installed-for-benchmarks
	PYTHONPATH=. $(BIN)/python benchmarks/run.py $(ARGS)

clean:
	rm -rf $(VENV) build dist *.egg-info _trial_temp* .hypothesis .pytest_cache .mypy_cache .ruff_cache
	rm -f twisted/plugins/dropin.cache
	find fakedev twisted tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/installed: setup.cfg pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/installed-for-tests: setup.cfg pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@ $(VENV)/installed

$(VENV)/installed-for-benchmarks: setup.cfg pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,fast]'
	@touch $@ $(VENV)/installed

$(BIN)/python:
	@command -v $(PYTHON) > /dev/null || { \
	  echo "fakedev needs Python 3.11 or newer, and there is no $(PYTHON): install it, or say make PYTHON=/path/to/python3.11" >&2; \
	  exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "fakedev needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1): say make PYTHON=/path/to/python3.11" >&2; \
	  exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2> /dev/null || { \
	  echo "$(PYTHON) cannot make virtual environments: install its venv module (package python3-venv on Debian and Ubuntu)" >&2; \
	  exit 1; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
