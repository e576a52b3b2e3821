# pykubelet: every target sets up what it needs. Run `make help` for the list.
PYTHON ?= python3
# Another interpreter gets a virtual environment of its own: make unit PYTHON=python3.13
VENV := $(if $(filter python3,$(PYTHON)),.venv,build/$(notdir $(PYTHON))/.venv)
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
OPENAPI ?=
APT := $(shell cat tools/debian-packages.txt | tr '\n' ' ')
APT_V2 := $(shell cat tools/debian-packages-v2.txt | tr '\n' ' ')
APT_TESTS := $(shell cat tools/debian-packages-tests.txt | tr '\n' ' ')
# Part of the tests in the emulated machine to run: `smoke`, `selinux` (in a machine of its own), or all of the others.
V2 ?= not selinux
# The Debian release of that machine, such as trixie; empty: the one of this machine.
RELEASE ?=
# The container runtimes that the tests with a real one run on: both, criserver or containerd (of both, the cluster
# tests take criserver).
RUNTIMES ?= both
# How many suites of tests run side by side.
LANES ?= 2
# ALSO=v2: `make test` with the short form of the tests in an emulated machine, too.
ALSO ?=
# How often the fault benchmark does each fault, and the other runtime that it does them to.
TRIES ?= 5
PEER ?=
# How long `make fuzz` and `make churn` run.
MINUTES ?= 10
OWNED := sh tools/owned.sh
PIP := $(BIN)/python -m pip install --disable-pip-version-check --progress-bar=off --no-color --root-user-action=ignore
SUITES = $(OWNED) $(BIN)/python -m tools.suites --runtime=$(RUNTIMES) --lanes=$(LANES)

# These say at once what they need, before anything is installed.
ROOTED := $(filter run clean-run test test-v2 integration bench faults churn,$(MAKECMDGOALS))
ifneq ($(and $(ROOTED),$(filter-out 0,$(shell id -u))),)
$(error make $(firstword $(ROOTED)) needs root: run `sudo make $(ROOTED)`, or in a shell of root `make $(ROOTED)`)
endif

.PHONY: help setup packages test-packages test-v2 smoke-v2 run clean-run test check quick lint unit unit-part unit-second integration bench faults churn fuzz mutants gen man lock wheel clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | column -t -s "$$(printf '\t')"

packages: ## install the Debian packages that are missing (root)
	@sh tools/install-packages.sh $(APT)

test-packages: # what only tests and measurements need: another runtime to compare with
	@sh tools/install-packages.sh $(APT_TESTS)

$(STAMP): requirements.lock pyproject.toml
	@test -x $(BIN)/python || $(OWNED) sh tools/step.sh "virtual environment $(VENV)" $(PYTHON) -m venv $(VENV)
	@$(OWNED) sh tools/step.sh "Python packages of requirements.lock" $(PIP) --require-hashes -r requirements.lock
	@$(OWNED) sh tools/step.sh "pykubelet in $(VENV)" $(PIP) --no-deps --no-build-isolation --editable .
	@$(OWNED) $(BIN)/python -m compileall -q src tools
	@$(OWNED) touch $@

setup: packages $(STAMP) ## Debian packages and the virtual environment

run: setup ## run the demo pod with our own runtime server; Ctrl-C leaves the pods running (root; without a terminal plain lines)
	@$(BIN)/python -m tools.demo up

clean-run: ## remove every trace of `make run` (root)
	@test ! -x $(BIN)/python || $(BIN)/python -m tools.demo down

test: setup test-packages ## everything: check, then the tests with a real runtime (root)
	$(SUITES) lint unit $(ALSO) integration cluster faults

test-v2: setup ## tests in an emulated Debian machine with cgroup v2 and systemd; V2=smoke: only the short form; V2=selinux: on a kernel that enforces SELinux; RELEASE=trixie: another Debian (root)
	@sh tools/install-packages.sh $(APT_V2)
	PYKUBELET_V2_RELEASE=$(RELEASE) $(OWNED) $(BIN)/python -m pytest tests/v2 -m "$(V2)"

smoke-v2: setup ## the short form of test-v2 for CI, in at most 6 minutes: skipped with a reason where no machine can be emulated (root)
	$(OWNED) $(BIN)/python -m tools.v2.smoke

check: setup ## lint, types, import rules, generated code, unit tests
	$(SUITES) lint unit

quick: $(STAMP) ## within a minute: lint and the unit tests of what has changed
	@$(OWNED) $(BIN)/python -m tools.quick

lint: $(STAMP) ## style, types, import rules, words, unused names, generated code, and the rules of the code base
	$(OWNED) $(BIN)/ruff check .
	$(OWNED) $(BIN)/ruff format --check --quiet .
	$(OWNED) $(BIN)/mypy src tests tools benchmarks
	$(OWNED) $(BIN)/lint-imports
	$(OWNED) $(BIN)/python tools/words.py
	$(OWNED) $(BIN)/python tools/unused.py
	$(OWNED) $(BIN)/python tools/gen_proto.py --check
	$(OWNED) $(BIN)/python tools/gen_diagrams.py --check
	$(OWNED) $(BIN)/python -m pytest -q tests/unit/test_*.py

unit: $(STAMP)
	$(SUITES) unit

unit-part: $(STAMP)
	$(OWNED) $(BIN)/python -m pytest -q tests/unit/base tests/unit/cli tests/unit/models

unit-second: ## unit tests (base, cli, models; ALL=1: all of them) on a second Python from 3.11 on, if one is installed
	@sh tools/second-python.sh $(ALL)

integration: $(STAMP)
	$(SUITES) integration cluster faults

bench: setup test-packages ## measure the agent on real runtimes; GO_KUBELET=/path adds the Go kubelet as peer, KUBEBUILDER_ASSETS=/directory an API server (root)
	$(BIN)/python -m benchmarks

fuzz: $(STAMP) ## fuzz for MINUTES=10; FILES="words" chooses test files by their names
	$(BIN)/python -m tools.fuzz --minutes=$(MINUTES) $(FILES)

mutants: $(STAMP) ## change one place of a module at a time and see whether a test notices; MODULES="words"
	$(BIN)/python -m tools.mutants $(MODULES)

faults: setup test-packages ## do every fault TRIES=5 times to a node, write docs/reliability.md; PEER=containerd and GO_KUBELET=/path compare (root)
	$(OWNED) $(BIN)/python -m benchmarks.faults --tries=$(TRIES) --peer=$(PEER) --report=docs/reliability.md

churn: setup ## pods come and go for MINUTES=60 while agent and server are killed every minute: what they hold must stay flat (root)
	$(BIN)/python -m benchmarks.churn --minutes=$(MINUTES)

gen: $(STAMP) ## regenerate stubs, diagrams and (with OPENAPI=file) the typed models
	$(OWNED) $(BIN)/python tools/gen_proto.py
	$(OWNED) $(BIN)/python tools/gen_diagrams.py
	$(if $(OPENAPI),$(BIN)/python tools/gen_models.py $(OPENAPI))

man: $(STAMP) ## write the manual pages of the command line into build/man
	$(OWNED) $(BIN)/python -m tools.gen_man build/man

lock: ## renew requirements.lock from pyproject.toml
	$(BIN)/pip-compile --quiet --generate-hashes --strip-extras --extra dev --extra tracing --all-build-deps --allow-unsafe \
	  --no-header --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-emit-options \
	  --output-file requirements.lock pyproject.toml

wheel: $(STAMP) ## build the wheel into dist/
	$(OWNED) $(BIN)/python -m build --wheel --no-isolation

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
