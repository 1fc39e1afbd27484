# The two commands: `make train` does the main job, `make test` proves the tree. Both set everything up first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN ?= runs/SafetyCarRun-v0-invqua

.PHONY: train test test-gymnasium1 setup lint clean

# PAPD (InvQua, PPOL) on the Car's twin at the paper's budget, checked in real Bullet. A finished run is only told again;
# an interrupted one goes on. Ends with status 1 where the policy breaks its limit in the check.
train: setup
	@$(BIN)/papd train SafetyCarRun-v0 --backend twin --lr invqua --steps 1_000_000 --eval-backend bullet \
		--out $(RUN) --resume > /dev/null
	@$(MAKE) --silent $(RUN)/report.html
	@$(BIN)/papd train --out $(RUN) --resume --require-limit

$(RUN)/report.html: $(RUN)/summary.json
	@$(BIN)/papd report $(RUN) --out $@ --figures $(RUN)/figures

test: setup lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

# The tests of strangers' environments under Gymnasium 1.x, which Bullet-Safety-Gym does not let in beside itself.
test-gymnasium1: $(VENV)-gymnasium1/.installed
	$(VENV)-gymnasium1/bin/python -m pytest -n 2 --dist worksteal -m "not bullet" tests/agents/test_rollout.py \
		$(addprefix tests/envs/test_,host.py host_faults.py registry.py checker.py)

$(VENV)-gymnasium1/.installed: pyproject.toml constraints.txt
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	grep -v '^gymnasium==' constraints.txt > $(@D)/constraints.txt
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -c $(@D)/constraints.txt -e ".[test]" "gymnasium>=1,<2"
	touch $@

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
	rm -rf $(VENV) $(VENV)-gymnasium1 runs
