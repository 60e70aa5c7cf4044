# make demo    set up, and see the main job
# make test    set up, then lint, types and tests
# make test-all             the same, and the tests marked exhaustive
# make test-quick           the tests of the core, in about two minutes
# make test-dev             all tests in Python's development mode: a file or a connection left open fails its test
# make test-integrations    test against SDKs and frameworks (installs them)
# make test-viewer          test the viewer's page in Chromium (installs Debian's where it can), and check its types with tsc
# make bench   measure, side by side with peers (installs them)
# make fidelity    record, replay and edit failing agents by the thousand: is a green result ever wrong?
# make crash   kill -9 recordings, receivers, imports and replays 200 times and writers of logs 500 times, prune for a minute
#              while others write, damage stores
# make measure     how readable the source and the prose are, and how many files the main paths run through
# make dist    build sdist and wheel, reproducibly, with checksums and a bill of materials
# make clean   remove everything that was made here
#
# Add PYTHON=/path/to/python3 to choose the interpreter (3.11 or newer).

VENV := .venv
BIN = $(VENV)/bin
BENCH := .venv-bench
MITMPROXY := .venv-mitmproxy
INTEGRATIONS := .venv-integrations
INTEGRATIONS_2 := .venv-integrations-2
VIEWER := .venv-viewer
ENVIRONMENTS := $(VENV) $(BENCH) $(MITMPROXY) $(INTEGRATIONS) $(INTEGRATIONS_2) $(VIEWER)
QUICK := model store seam handlers/replay handlers/recording formats/test_deep.py
NODE := $(if $(shell command -v npm),.node)
BOUNDED := $(if $(shell command -v timeout),timeout 90)

# Tests start hundreds of processes that read compiled modules and write none: without these, each start takes twice as long,
# and so does the collection of the tests.
export PYTHONDONTWRITEBYTECODE :=
COMPILE = $(BIN)/python -m compileall -q src tests/fidelity tests/candidates/outside_agents
# One more than two cores have use for: many tests wait for a process or a clock.
TSC = .node/viewer/node_modules/.bin/tsc --noEmit --allowJs --checkJs --strict --noUnusedLocals --noUnusedParameters \
	--noImplicitReturns --target es2022 --module es2022 --moduleResolution bundler --lib esnext,dom,dom.iterable
PYTEST = $(BIN)/python -m pytest -q -n 3 --dist worksteal

# Two targets must not set up the same environment at the same time.
.NOTPARALLEL:

.PHONY: demo test test-all test-quick test-dev lint unit exhaustive test-integrations test-viewer bench fidelity crash measure dist clean $(ENVIRONMENTS)

# The demo needs no more than the package itself.
demo:
	@tools/setup-venv $(VENV)
	@$(BIN)/replaykit demo

test: lint unit

# One session: a property is not tried with a part of its examples before it is tried with all of them.
test-all: lint
	$(COMPILE)
	$(PYTEST) -m "" --hypothesis-profile thorough

lint: $(VENV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy tests/typing/api.py
	$(BIN)/lint-imports

unit: $(VENV)
	$(COMPILE)
	$(PYTEST)

# What `make unit` leaves out, and more examples of each property: see tests/matrix.py.
exhaustive: $(VENV)
	$(COMPILE)
	$(PYTEST) -m "exhaustive or hypothesis" --hypothesis-profile thorough

# Where another version of Python would show first: values, files, patched libraries, and deep nesting.
test-quick: $(VENV)
	$(COMPILE)
	$(PYTEST) $(QUICK:%=tests/%)

# From Python 3.13 on, databases left open are noticed as well. Processes that tests start are in the same mode, and what they
# leave open is listed at the end. No memory is traced: that takes six times as long. To see where something was opened, run
# its test alone: PYTHONDEVMODE=1 PYTHONTRACEMALLOC=8 .venv/bin/python -m pytest -n 0 -m "" -W error::ResourceWarning TEST
test-dev: $(VENV)
	$(COMPILE)
	PYTHONDEVMODE=1 $(PYTEST) -m "" -W error::ResourceWarning

# Two environments, since not all frameworks go with the same SDKs; Node's SDKs where there is Node.
test-integrations: $(INTEGRATIONS) $(INTEGRATIONS_2) $(NODE:%=%/.ready)
	REPLAYKIT_NODE_MODULES="$$(ls -d $(CURDIR)/.node/node_modules 2>/dev/null)" $(INTEGRATIONS)/bin/python -m pytest -q -n 2 --dist worksteal tests/integrations
	$(INTEGRATIONS_2)/bin/python -m pytest -q -n 2 --dist worksteal tests/integrations/frameworks

# Types need npm, and pages a browser: what is missing is left out with a message, unless REPLAYKIT_REQUIRE_BROWSER is 1.
test-viewer: $(VIEWER) $(NODE:%=%/viewer/.ready)
	@if [ -x .node/viewer/node_modules/.bin/tsc ]; then $(TSC) src/replaykit/viewer/static/*.js src/replaykit/viewer/static/*.d.ts; \
		else echo "npm did not install TypeScript: the types of the page are not checked"; [ "$$REPLAYKIT_REQUIRE_BROWSER" != 1 ]; fi
	@browser=$$(tools/find-browser) && { [ -z "$$browser" ] || \
		REPLAYKIT_BROWSER="$$browser" $(VIEWER)/bin/python -m pytest -q tests/viewer_browser; }

# The peers bring pytest plugins of their own, so they live apart from what `make test` uses.
bench: $(BENCH) $(MITMPROXY)
	$(BENCH)/bin/python bench/run.py --python mitmproxy=$(CURDIR)/$(MITMPROXY)/bin/python

# FIDELITY_RANDOM is the number of random agents, 5,000 by default; FIDELITY_TIMES how often each of the others is
# replayed, 3 times by default; FIDELITY_SEED chooses the random ones.
fidelity: $(VENV)
	$(BIN)/python -m tests.fidelity.run

crash: $(VENV)
	CRASH_TRIALS=200 $(BIN)/python -m pytest -q -n 2 -rP -m "" tests/crash/test_kill.py
	LOG_KILLS=500 SHARED_LOG_KILLS=500 $(BIN)/python -m pytest -q -s tests/crash/test_log_kills.py \
		tests/crash/test_shared_log_kills.py
	PRUNE_SECONDS=60 $(BIN)/python -m pytest -q -s tests/crash/test_prune.py
	DAMAGE_TRIALS=100 $(BIN)/python -m pytest -q -n 2 -m "" tests/store/test_salvage.py

measure: $(VENV)
	$(BIN)/python tools/trace-paths
	$(BIN)/python tools/prose
	$(BIN)/python tools/measure

# Two builds of a commit are the same bytes: tools/make-dist says under which conditions.
dist: $(VENV)
	$(BIN)/python tools/make-dist dist

clean:
	rm -rf $(ENVIRONMENTS) .venv-3.* .venv-elsewhere .node .replaykit .fidelity .hypothesis .pytest_cache .mypy_cache .ruff_cache .import_linter_cache build dist bench/.work
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The script leaves an environment that is complete as it is.
$(VENV): EXTRAS := dev
$(BENCH): EXTRAS := bench
$(MITMPROXY): EXTRAS := bench-mitmproxy
$(INTEGRATIONS): EXTRAS := dev,integrations
$(INTEGRATIONS_2): EXTRAS := dev,integrations-2
$(VIEWER): EXTRAS := viewer-tests
$(ENVIRONMENTS):
	@tools/setup-venv $@ $(EXTRAS)

# Where npm reaches no registry, the tests of Node's SDKs are left out, and this says so.
.node/.ready: Makefile
	$(BOUNDED) npm install --silent --prefix .node --no-save --no-package-lock --fetch-retries 1 \
		openai@7 @anthropic-ai/sdk@1 \
		|| echo "npm could not install Node's SDKs: their tests are left out"
	@mkdir -p .node && touch $@

# TypeScript checks the types of the page's modules; axe-core finds what people who use a screen reader would meet.
.node/viewer/.ready: Makefile
	$(BOUNDED) npm install --silent --prefix .node/viewer --no-save --no-package-lock --fetch-retries 1 typescript@5 axe-core@4 \
		|| echo "npm could not install TypeScript and axe-core"
	@mkdir -p .node/viewer && touch $@
