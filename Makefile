# make demo    set up, and see the main job
# make test    set up, then lint, types and tests
# make test-integrations    test against SDKs and frameworks (installs them)
# make bench   measure, side by side with peers (installs them)
# make crash   kill -9 a recording process 200 times, prune for a minute while others write, damage stores
# make clean   remove everything that was made here

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH := .venv-bench
MITMPROXY := .venv-mitmproxy
INTEGRATIONS := .venv-integrations
INTEGRATIONS_2 := .venv-integrations-2
NODE := $(if $(shell command -v npm),.node)
BOUNDED := $(if $(shell command -v timeout),timeout 90)

.PHONY: demo test lint unit test-integrations bench crash clean

demo: $(READY)
	@$(BIN)/replaykit demo

test: lint unit

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy tests/typing/api.py
	$(BIN)/lint-imports

unit: $(READY)
	$(BIN)/python -m pytest -q -n 2

# Two environments, since not all frameworks go with the same SDKs; Node's SDKs where there is Node.
test-integrations: $(INTEGRATIONS)/.ready $(INTEGRATIONS_2)/.ready $(NODE:%=%/.ready)
	REPLAYKIT_NODE_MODULES="$$(ls -d $(CURDIR)/.node/node_modules 2>/dev/null)" $(INTEGRATIONS)/bin/python -m pytest -q -n 2 tests/integrations
	$(INTEGRATIONS_2)/bin/python -m pytest -q -n 2 tests/integrations/frameworks

# The peers bring pytest plugins of their own, so they live apart from what `make test` uses.
bench: $(BENCH)/.ready $(MITMPROXY)/.ready
	$(BENCH)/bin/python bench/run.py --python mitmproxy=$(CURDIR)/$(MITMPROXY)/bin/python

crash: $(READY)
	CRASH_TRIALS=200 $(BIN)/python -m pytest -q -s tests/crash/test_kill.py
	PRUNE_SECONDS=60 $(BIN)/python -m pytest -q -s tests/crash/test_prune.py
	DAMAGE_TRIALS=100 $(BIN)/python -m pytest -q -n 2 tests/store/test_salvage.py

clean:
	rm -rf $(VENV) $(BENCH) $(MITMPROXY) $(INTEGRATIONS) $(INTEGRATIONS_2) .node .replaykit .hypothesis .pytest_cache .mypy_cache .ruff_cache .import_linter_cache build dist bench/.work
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet -e ".[dev]"
	@touch $(READY)

$(BENCH)/.ready: pyproject.toml
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/pip install --quiet --upgrade pip
	$(BENCH)/bin/pip install --quiet -e ".[bench]"
	@touch $(BENCH)/.ready

$(MITMPROXY)/.ready: pyproject.toml
	$(PYTHON) -m venv $(MITMPROXY)
	$(MITMPROXY)/bin/pip install --quiet --upgrade pip
	$(MITMPROXY)/bin/pip install --quiet -e ".[bench-mitmproxy]"
	@touch $(MITMPROXY)/.ready

$(INTEGRATIONS)/.ready: pyproject.toml
	$(PYTHON) -m venv $(INTEGRATIONS)
	$(INTEGRATIONS)/bin/pip install --quiet --upgrade pip
	$(INTEGRATIONS)/bin/pip install --quiet -e ".[dev,integrations]"
	@touch $@

$(INTEGRATIONS_2)/.ready: pyproject.toml
	$(PYTHON) -m venv $(INTEGRATIONS_2)
	$(INTEGRATIONS_2)/bin/pip install --quiet --upgrade pip
	$(INTEGRATIONS_2)/bin/pip install --quiet -e ".[dev,integrations-2]"
	@touch $@

# Where npm reaches no registry, the tests of Node's SDKs are left out, and this says so.
.node/.ready: Makefile
	$(BOUNDED) npm install --silent --prefix .node --no-save --no-package-lock --fetch-retries 1 \
		openai@7 @anthropic-ai/sdk@1 \
		|| echo "npm could not install Node's SDKs: their tests are left out"
	@mkdir -p .node && touch $@
