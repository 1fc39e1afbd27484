# The two commands: `make train` does the main job, `make test` proves the tree. Both set everything up first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN ?= runs/SafetyCarRun-v0-invqua

.PHONY: train test setup lint clean

train: setup
	$(BIN)/papd demo --out $(RUN)

test: setup lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[bullet,test]"
	touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) runs
