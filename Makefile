# Everything in two commands, `make demo` and `make test`. The first use of either makes .venv.
# Another interpreter: make test PYTHON=/path/to/python3.12

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
LIT_TESTS := $(wildcard test/dialects test/passes test/lowering test/tools)
PAGES := schedules operators partitioning vta cluster_plan
BENCHMARKS := $(wildcard test/benchmarks/bench_*.py)
TUNED ?= --trials 400
PYTHONS ?= 3.11 3.12 3.13

# The first Python on the path that is new enough; looked up only when the environment is made.
NEW_ENOUGH := -c 'import sys; sys.exit(sys.version_info < (3, 11))'
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14 python; do \
	"$$p" $(NEW_ENOUGH) 2>/dev/null && echo "$$p" && break; done)

# An environment that came along with a copied or renamed folder still points at the old one.
HERE := $(shell pwd -P)
MADE_IN := $(shell cat $(STAMP) 2>/dev/null)
ifneq ($(MADE_IN),$(HERE))
MOVED := moved
endif

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test lit pytest lint format types imports docs tuned dist test-pythons bench clean moved

help:  ## say what can be made
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/make \1@\2/p' Makefile | \
		awk -F@ '{printf "%-14s %s\n", $$1, $$2}'

demo: $(STAMP)  ## compile a small network for handwritten digits, run it and show what happened
	@echo "demo: examples/digits/demo.py"
	@$(BIN)/python examples/digits/demo.py

test: $(STAMP)  ## all tests: lit tests of IR text, then pytest, even if the first fail
	@failed=0; for part in lit pytest; do $(MAKE) --no-print-directory $$part || failed=1; done; \
		exit $$failed

lit: $(STAMP)  ## the lit tests of IR text
	@echo "lit: $(LIT_TESTS)"
	@$(BIN)/lit -sv $(LIT_TESTS)

pytest: $(STAMP)  ## the tests in Python
	@echo "pytest: test/python"
	@$(BIN)/pytest test/python

lint: $(STAMP)  ## ruff: rules and format
	@echo "lint: ruff"
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

format: $(STAMP)  ## let ruff format the sources
	@$(BIN)/ruff format

types: $(STAMP) .types/vtac  ## mypy, strict
	@echo "types: mypy"
	@MYPYPATH=.types $(BIN)/mypy -p vtac

imports: $(STAMP)  ## import-linter: who may import whom
	@echo "imports: import-linter"
	@$(BIN)/lint-imports --no-logo

docs: $(STAMP)  ## write the pages of docs/ that a command writes, and build the site, build/site
	@echo "docs: the pages that scripts in docs/ write, then build/site"
	@for page in $(PAGES); do $(BIN)/python docs/$$page.py || exit 1; done
	@$(BIN)/python test/support/code_blocks.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs --quiet build --strict
	@echo "docs: open build/site/index.html"

tuned: $(STAMP)  ## search schedules for the models of TUNED (MODEL SAMPLES ...), to ship the records
	@echo "tuned: tools/tune/records"
	@$(BIN)/python -m vtac.tools.tune.shipped $(TUNED)

dist: $(STAMP)  ## the sources and, built from them, the wheel, dist/, checked as an index does
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation --outdir dist . >/dev/null
	@$(BIN)/python -m twine check --strict dist/*

test-pythons:  ## half of the tests with each Python of PYTHONS that is here
	@test/pythons $(PYTHONS)

bench: $(STAMP)  ## the benchmarks, test/benchmarks/bench_*.py, one after the other
	@test -n "$(BENCHMARKS)" || echo "bench: there is no test/benchmarks/bench_*.py"
	@for script in $(BENCHMARKS); do echo "bench: $$script"; $(BIN)/python $$script || exit 1; done

clean:  ## remove the environment and every cache
	@echo "clean: environment and caches"
	@rm -rf $(VENV) .types build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache \
		.hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Type checkers do not follow a package-dir mapping; this link shows them the package vtac.
.types/vtac:
	@mkdir -p .types
	@ln -s .. .types/vtac

$(STAMP): pyproject.toml setup.py $(MOVED)
	@test -n "$(PYTHON)" && "$(PYTHON)" $(NEW_ENOUGH) || { echo "vtac needs Python 3.11 or newer;" \
		"'$(PYTHON)' is not. Name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@test -x $(BIN)/python -a "$(MADE_IN)" = "$(HERE)" || \
		"$(PYTHON)" -m venv $$(test ! -e $(STAMP) || echo --clear) $(VENV)
	@echo "$(VENV): installing vtac and its tools ($$($(BIN)/python --version))," \
		"a minute or more the first time"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@echo "$(HERE)" > $(STAMP)
