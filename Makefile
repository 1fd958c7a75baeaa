# Every target makes the virtual environment first if it is not there or out of date.
PYTHON ?= python3
VENV ?= .venv
RUN = $(VENV)/bin/python
# The whole suite is for two cores.
WORKERS ?= 2

# A seed repeats a run only with the same order of sets.
export PYTHONHASHSEED = 0

.PHONY: install up demo test all-but-contract contract soak check docs format lock bench conformance clean

install: $(VENV)/installed

$(VENV)/installed: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install -qq --disable-pip-version-check --require-hashes -r requirements.lock
	$(RUN) -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

up: install
	$(RUN) -m cumulet up

demo: install
	$(RUN) -m cumulet demo

# 'make --keep-going test' runs the second part after a failure of the first, too.
test: all-but-contract contract

# PostgreSQL is started once for all workers. A test that is skipped is a failure. A worker that has done its share
# takes from the other's: tests differ by a factor of a thousand in length.
all-but-contract: install
	.ci/part tests 900 $(RUN) -m tests.postgres $(RUN) -m pytest -q -n $(WORKERS) --dist worksteal --no-skips --durations 15 --ignore=tests/contract

# The ordinary clients, against a cloud in a process of its own.
contract: install
	.ci/part contract 240 $(RUN) -m pytest -q -n $(WORKERS) --dist worksteal --no-skips tests/contract

# Whatever is drawn by chance, with fresh seeds.
SECONDS ?= 60
soak: install
	$(RUN) -m tests.soak --seconds $(SECONDS)

check: install
	$(VENV)/bin/ruff format --check --quiet .
	$(VENV)/bin/ruff check --quiet .
	$(VENV)/bin/lint-imports --no-cache
	$(VENV)/bin/mypy
	$(RUN) -m cumulet.pages --check

format: install
	$(VENV)/bin/ruff check --quiet --fix .
	$(VENV)/bin/ruff format --quiet .

docs: install
	$(RUN) -m cumulet.pages

bench: install
	$(RUN) -m bench

# Tempest against a cloud of its own: make conformance LIST=smoke
LIST ?= smoke
conformance: install
	$(RUN) -m tests.conformance $(LIST)

# Needs uv. The file names no index, so that any can be used.
lock:
	uv pip compile pyproject.toml --extra postgres --group dev --group contract --universal \
	  --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate -o requirements.lock

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
