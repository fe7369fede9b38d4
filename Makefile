# Every target sets up what it needs in .venv; the first one takes a few minutes, later ones start at once.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# Versions to install, such as constraints.txt, which CI uses; if empty, the newest ones that pyproject.toml allows.
CONSTRAINTS ?=
PIP := -m pip install --quiet --disable-pip-version-check --progress-bar off

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check format bench matrix models docs recording constraints release-check clean

help:  ## show this
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "loope needs Python 3.10 or newer; set PYTHON=..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing into .venv (torch is large: this takes a few minutes, once) ..."
	@$(BIN)/python $(PIP) $(if $(CONSTRAINTS),-c $(CONSTRAINTS)) -e '.[dev]'
	@touch $@

demo: $(READY)  ## train a small ViT with five encoders, swap one, write a report (5 minutes)
	@$(BIN)/loope demo

# One thread a worker: the workers already fill the cores.
test: $(READY)  ## run the tests on all cores
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal -q

test-all: $(READY)  ## run the slow tests: fuzzing, more pairs of model and encoder (LOOPE_ALL=1: all), the wheel in an empty environment
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal -q -m slow

check: $(READY)  ## format, lint, types, import rules
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

format: $(READY)  ## let ruff put the code in order
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(READY)  ## measure every claim of speed, as a ratio in one run
	@for script in $(filter-out benchmarks/timing.py, $(wildcard benchmarks/*.py)); do echo "== $$script"; $(BIN)/python $$script || exit 1; done

matrix: $(READY)  ## try every encoder in every model, write docs/matrix.csv
	@$(BIN)/python docs/matrix.py

models: $(READY)  ## try each kind of encoder in every model of timm and transformers, write docs/models.md (15 minutes)
	@$(BIN)/python docs/models.py

docs: $(READY)  ## draw pictures and tables anew, build the documentation into build/site
	@$(BIN)/python docs/build.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Written: build/site/index.html"

recording: $(READY)  ## record the explorer as the animated picture of README.md (needs Chromium)
	@$(BIN)/python docs/record_explorer.py

constraints:  ## renew constraints.txt with the newest versions that pyproject.toml allows
	@rm -rf build/newest && $(PYTHON) -m venv build/newest
	@build/newest/bin/python $(PIP) '.[dev]'
	@{ echo "# What CI installs; \`make constraints\` renews it."; build/newest/bin/python -m pip freeze --exclude loope; } > constraints.txt

# Builds from a copy of the sources, as an index would get them; torch makes the installation large.
RELEASE := build/release
release-check:  ## build the package, check its metadata, install the wheel into an empty environment and try it
	@rm -rf $(RELEASE) && $(PYTHON) -m venv $(RELEASE)/tools && $(PYTHON) -m venv $(RELEASE)/empty
	@$(RELEASE)/tools/bin/python $(PIP) build twine
	@$(RELEASE)/tools/bin/python -m build --outdir $(RELEASE)/dist
	@$(RELEASE)/tools/bin/twine check --strict $(RELEASE)/dist/*
	@$(RELEASE)/empty/bin/python $(PIP) $(if $(CONSTRAINTS),-c $(CONSTRAINTS)) $(RELEASE)/dist/*.whl
	@cd $(RELEASE) && empty/bin/loope --version && empty/bin/loope order gilbert raster --grid 3x4
	@cd $(RELEASE) && empty/bin/python -c 'import loope; print(loope.create_encoder("loope", dim=32, grid=(3, 4), patch_size=4))'

clean:  ## remove the environment and everything made
	rm -rf .venv out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
