# make run        serve the built-in demo (ARGS="--config FILE" serves something else)
# make check      lint, types and the fast tests: for each save, and for the pre-commit hook
# make test       lint, types and all tests but those of make test-long
# make test-long  the tests that take more than ten seconds each, and all examples of the property tests
# make stack      fakedev, a Prometheus that scrapes it, alert rules, and Grafana with dashboards where it is installed
# make fuzz       hostile input for everything that reads, for ten minutes (FUZZ_SECONDS=60, FUZZ_INPUTS=, FUZZ_SEED=, FUZZ_TARGET=, FUZZ_INPUT=FILE)
# make bench      the benchmarks of doc/performance.md (ARGS="--write --minutes 10 prometheus" runs one of them again)
# make reliability  the figures of doc/reliability.md (ARGS="--short" takes five minutes and prints them)
# make image      the container image, by docker, podman or buildah (IMAGE=fakedev is its name; IMAGE_OPTIONS=... of the build)
# make test-image  the image on a base of Debian's packages, run as the originals are (a part of make test-long); needs root,
#                 podman, runc and mmdebstrap
# make dist       the sdist, the wheel and its SBOM in dist/, checked, and tried in a fresh virtual environment
# make docs       the pages of doc/ with a search index, in build/site
# make clean      remove all that these made
#
# They set up what they need in .venv; PYTHON=... chooses the Python that creates it. PYTEST_ARGS=... replaces the
# options of pytest (PYTEST_ARGS="-x -k reload"), WORKERS=... the number of processes that run tests.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
PYTEST_ARGS ?= -q -rsfE
IMAGE ?= fakedev
IMAGE_OPTIONS ?=

# Expanded only in recipes: then there is a Python to ask.
CORES = $(shell $(BIN)/python -c 'import os; print(max(2, os.cpu_count() or 1))')
WORKERS = $(CORES)
# Tests run make, too: it must not take over the options and variables of this one.
PYTEST = MAKEFLAGS= PYTHONPATH=. $(BIN)/python -m pytest $(PYTEST_ARGS) --numprocesses $(WORKERS) --dist worksteal

# Lint takes no time and stops the rest. Types are checked while the tests run, and are printed after them.
# The shell starts mypy deaf to ^C; without the trap it would outlive make.
define lint_types_and_tests
	@$(BIN)/ruff check .
	@$(BIN)/mypy --config-file setup.cfg > $(VENV)/types.txt 2>&1 & mypy=$$!; \
	  trap 'kill $$mypy 2> /dev/null; exit 130' INT TERM; \
	  $(TESTS); tests=$$?; \
	  wait $$mypy; types=$$?; \
	  cat $(VENV)/types.txt; \
	  [ $$tests -eq 0 ] && [ $$types -eq 0 ]
endef

.PHONY: run stack check test test-long image test-image fuzz bench plausible reliability dist docs clean
.DELETE_ON_ERROR:

run: $(VENV)/installed
	@exec $(BIN)/fakedev serve $(ARGS)

stack: $(VENV)/installed
	@exec etc/stack/run.sh $(ARGS)

# Property tests try a sixteenth of their examples here and in make test.
check: TESTS = FAKEDEV_HYPOTHESIS_PROFILE=fast $(PYTEST) -m "not real and not slow and not long"
check: $(VENV)/installed-for-tests
	$(lint_types_and_tests)

# Tests of real programs wait most of their time: there is work for two processes on each core.
test: WORKERS = $$(( 2 * $(CORES) ))
test: TESTS = FAKEDEV_HYPOTHESIS_PROFILE=fast $(PYTEST) -m "not long"
test: $(VENV)/installed-for-tests
	$(lint_types_and_tests)

# The long ones and all examples on all cores, a file for each worker: one of them makes the image. Then those that
# measure, one after the other.
test-long: $(VENV)/installed-for-tests
	@export FAKEDEV_HYPOTHESIS_PROFILE=full; \
	  $(PYTEST) --dist loadfile -m "(long or deep or hypothesis) and not alone"; others=$$?; \
	  $(PYTEST) --numprocesses 0 -m alone && [ $$others -eq 0 ]

# podman and buildah need the form of docker for the health check.
image:
	@for engine in docker podman buildah; do \
	  if $$engine info > /dev/null 2>&1; then BUILDAH_FORMAT=docker exec $$engine build --tag "$(IMAGE)" $(IMAGE_OPTIONS) .; fi; \
	done; \
	echo "make image needs docker, podman or buildah, and none of them works here" >&2; exit 1

test-image: WORKERS = 0
test-image: $(VENV)/installed-for-tests
	@$(PYTEST) tests/image

# It takes its variables from the environment, where make puts those of its command line.
fuzz: $(VENV)/installed-for-tests
	@PYTHONPATH=. $(BIN)/python -m tests.fuzz

bench: $(VENV)/installed-for-benchmarks
	PYTHONPATH=. $(BIN)/python benchmarks/run.py $(ARGS)

# A simulated week beside published clusters: doc/plausibility.md.
plausible: $(VENV)/installed-for-tests
	PYTHONPATH=. $(BIN)/python -m tests.support.documents.plausible

reliability: $(VENV)/installed-for-tests
	PYTHONPATH=. $(BIN)/python benchmarks/run_reliability.py $(ARGS)

# Without isolation: setuptools is installed for the tests, and another download of it would prove nothing.
# The programs are tried from another folder, where the checkout is not on Python's path. The SBOM lists what the wheel brings
# along without extras.
dist: $(VENV)/installed-for-tests
	rm -rf build dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	@fresh=$$(mktemp -d) && trap 'rm -rf "$$fresh"' EXIT && set -e; \
	  echo "trying the wheel in a fresh virtual environment"; \
	  $(BIN)/python -m venv --without-pip "$$fresh/venv"; \
	  $(BIN)/python -m pip --python "$$fresh/venv/bin/python" install --quiet --disable-pip-version-check dist/*.whl; \
	  wheel=$$(echo dist/*.whl); \
	  $(BIN)/cyclonedx-py environment --output-reproducible --output-file "$${wheel%.whl}.cdx.json" "$$fresh/venv/bin/python"; \
	  cd "$$fresh"; \
	  for program in venv/bin/fakedev*; do "$$program" --help > help.txt 2>&1 || { cat help.txt; exit 1; }; done; \
	  venv/bin/fakedev serve --check; \
	  venv/bin/twistd --help > help.txt; \
	  grep -w fakedev help.txt || { echo "twistd does not list fakedev" >&2; exit 1; }
	@fresh=$$(mktemp -d) && trap 'rm -rf "$$fresh"' EXIT && set -e; \
	  echo "trying pipx and uv with the wheel"; \
	  $(BIN)/python -m venv "$$fresh/tools"; \
	  "$$fresh/tools/bin/python" -m pip install --quiet --disable-pip-version-check pipx uv; \
	  wheel=$$(echo "$$PWD"/dist/*.whl); cd "$$fresh"; \
	  PIPX_HOME="$$fresh/pipx" PIPX_BIN_DIR="$$fresh/by-pipx" tools/bin/pipx install --quiet "$$wheel[tls]" \
	    --python "$$fresh/tools/bin/python"; \
	  UV_TOOL_DIR="$$fresh/uv" UV_TOOL_BIN_DIR="$$fresh/by-uv" tools/bin/uv tool install --quiet --no-cache \
	    --python "$$fresh/tools/bin/python" "fakedev[tls] @ file://$$wheel"; \
	  for folder in by-pipx by-uv; do \
	    for program in $$folder/fakedev*; do "$$program" --help > help.txt 2>&1 || { cat help.txt; exit 1; }; done; \
	    $$folder/fakedev serve --check; \
	  done

# A broken link fails.
docs: $(VENV)/installed-for-tests
	$(BIN)/python -m mkdocs build --quiet

clean:
	rm -rf $(VENV) build dist *.egg-info _trial_temp* .fuzz .hypothesis .pytest_cache .mypy_cache .ruff_cache
	rm -f twisted/plugins/dropin.cache
	find fakedev twisted tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/installed: setup.cfg pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/installed-for-tests: setup.cfg pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,docs,tls,kubernetes,node,scenario,calibrate]'
	@touch $@ $(VENV)/installed

$(VENV)/installed-for-benchmarks: setup.cfg pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,tls,kubernetes,node,scenario,calibrate,fast]'
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
