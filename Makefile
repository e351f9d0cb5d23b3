# Two commands do everything on a fresh machine: `make run` and `make test`. Both set up .venv first; a second call
# starts at once, since set-up is remembered in .venv/.ready and made again only when what it installs has changed.
.PHONY: run test test-all lint bench clean setup

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Hydra overrides of the main job, for example: make run ARGS="advantage=dr_grpo seed=1"
ARGS   ?=

export TOKENIZERS_PARALLELISM := false

run: $(VENV)/.ready
	$(BIN)/python -m grpo_runner experiment=quickstart $(ARGS)

test: $(VENV)/.ready
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder -m "not slow and not gpu"

# the long rows too, and those that need a GPU where there is one
test-all: $(VENV)/.ready
	$(BIN)/python -m pytest

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# beside TRL, in an environment of its own; for example: make bench CASE=smollm2 BENCH="--model FOLDER --dtype bfloat16"
CASE   ?= tiny
BENCH  ?=
bench: $(VENV)/.ready build/trl-env/.ready
	$(BIN)/python scripts/bench/compare.py --case $(CASE) $(BENCH)
	$(BIN)/python scripts/bench/tables.py

build/trl-env/.ready: scripts/bench/setup_trl.sh constraints.txt
	PYTHON=$(PYTHON) bash scripts/bench/setup_trl.sh build/trl-env
	touch $@

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt scripts/setup.sh
	bash scripts/setup.sh $(PYTHON) $(VENV)
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
