# pykubelet: every target sets up what it needs. Run `make help` for the list.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
OPENAPI ?=
APT := $(shell cat tools/debian-packages.txt | tr '\n' ' ')

.PHONY: help setup packages run clean-run test check lint unit integration bench gen lock wheel clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | column -t -s "$$(printf '\t')"

packages: ## install the Debian packages that are missing (root)
	@sh tools/install-packages.sh $(APT)

$(STAMP): requirements.lock pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

setup: packages $(STAMP) ## Debian packages and the virtual environment

run: setup ## run the demo pod on a private containerd; Ctrl-C leaves the pods running (root)
	@$(BIN)/python -m tools.demo up

clean-run: ## remove every trace of `make run` (root)
	@test ! -x $(BIN)/python || $(BIN)/python -m tools.demo down

test: setup check integration ## everything: check, then the tests with a real runtime (root)

check: setup lint unit ## lint, types, import rules, generated code, unit tests

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy src tests tools benchmarks
	$(BIN)/lint-imports
	$(BIN)/python tools/gen_proto.py --check
	$(BIN)/python tools/gen_diagrams.py --check

unit: $(STAMP)
	$(BIN)/python -m pytest tests/unit tests/contract

integration: $(STAMP)
	$(BIN)/python -m pytest tests/integration tests/faults

bench: setup ## measure the agent on the real runtime; GO_KUBELET=/path adds the Go kubelet as peer (root)
	$(BIN)/python -m benchmarks

gen: $(STAMP) ## regenerate stubs, diagrams and (with OPENAPI=file) the typed models
	$(BIN)/python tools/gen_proto.py
	$(BIN)/python tools/gen_diagrams.py
	$(if $(OPENAPI),$(BIN)/python tools/gen_models.py $(OPENAPI))

lock: ## renew requirements.lock from pyproject.toml
	$(BIN)/pip-compile --quiet --generate-hashes --strip-extras --extra dev --all-build-deps --allow-unsafe \
	  --no-header --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-emit-options \
	  --output-file requirements.lock pyproject.toml

wheel: $(STAMP) ## build the wheel into dist/
	$(BIN)/python -m build --wheel --no-isolation

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
