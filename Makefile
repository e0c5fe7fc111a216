# Two commands are enough: `make demo` shows the main job, `make test` runs the tests.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: campaign demo test lint types docs check mutants clean

demo: $(READY)
	$(BIN)/labelproof demo

# Tests start many processes: these read compiled modules, also where Python is told to write none.
test: $(READY)
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo

types: $(READY)
	$(BIN)/mypy

# The site in site/, from docs/ and the docstrings; a broken link or anchor is an error.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

check: lint types docs test

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $(READY)

# Which changes of a module does no test notice? MODULE lies below src/labelproof.
MODULE ?= functional/select.py
TESTS ?= tests/functional tests/parity
mutants: $(READY)
	OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE $(BIN)/python benchmarks/mutants.py $(MODULE) $(TESTS) $(if $(SAMPLE),--sample $(SAMPLE))

# Hours, not minutes: attacks on a machine of its own, best as root (for small disks).
campaign: $(READY)
	OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m campaign $(CAMPAIGN)

clean:
	rm -rf .venv site .pytest_cache .mypy_cache .ruff_cache .hypothesis
