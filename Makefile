# Every target sets up what it needs in .venv; `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Of what `plan` needs, without development tools.
RUNTIME := $(VENV)/.runtime
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
# The packages beside the core.
PACKAGES := -e ./importers -e ./capacity
# More workers than that wait for each other: each one collects all tests.
PARALLEL := -n auto --maxprocesses 8 --dist worksteal

.PHONY: help
help:  ## List the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

$(STAMP): pyproject.toml importers/pyproject.toml capacity/pyproject.toml constraints.txt
	@echo "Installing the package and its development tools into $(VENV): a minute or two"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) -e '.[dev,docs,e2e]' $(PACKAGES)
	@touch $@ $(RUNTIME)

$(RUNTIME): pyproject.toml importers/pyproject.toml capacity/pyproject.toml constraints.txt
	@echo "Installing the package into $(VENV): half a minute"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) -e . $(PACKAGES)
	@touch $@

.PHONY: setup
setup: $(STAMP)  ## Install the package and its development tools into .venv

.PHONY: demo
demo: $(RUNTIME)  ## Show what the DeepSeek-R1 example becomes, and what runs with how many GPUs
	$(BIN)/fusioninfer-pulumi plan examples/deepseek-disagg --gpus 80,64,48,32,16

# Workers, and the processes that tests start, share what was compiled once.
test test-long: export PYTHONDONTWRITEBYTECODE =

.PHONY: test
test: $(STAMP)  ## Run the fast tests, on all processors
	$(BIN)/python -m pytest -q $(PARALLEL)

.PHONY: test-long
test-long: $(STAMP)  ## Check properties with many more drawn inputs, and run the slow tests
	$(BIN)/python -m pytest -q $(PARALLEL) -m 'hypothesis or slow' --hypothesis-profile=long

.PHONY: coverage
coverage: $(STAMP)  ## The same, and list the lines and branches that they do not reach
	$(BIN)/python -m pytest -q --cov --cov-report=term

.PHONY: lint
lint: $(STAMP)  ## Check style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tools/check_types.py

.PHONY: docs
docs: $(STAMP)  ## Build the documentation site into site/, with every warning an error
	$(BIN)/mkdocs build --strict --quiet

.PHONY: package
package: $(STAMP)  ## Build the packages, and run the wheel on every Python of this machine
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[package]'
	$(BIN)/python tools/check_package.py

.PHONY: release-files
release-files: $(STAMP)  ## Build sdists, wheels, plugin, SBOM and, with the Pulumi CLI, SDKs into dist/
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[package]'
	$(BIN)/python tools/release_files.py

.PHONY: test-pythons
test-pythons: $(STAMP)  ## Run the fast tests on every Python from 3.10 to 3.13 of this machine
	$(BIN)/python tools/test_pythons.py

.PHONY: test-other-pythons
test-other-pythons: $(STAMP)  ## The same without the version of .venv; a part of them between the oldest and newest
	$(BIN)/python tools/test_pythons.py --others --brief

.PHONY: check
check: lint test test-other-pythons  ## Everything that needs no Go: lint, types, tests on all Pythons

.PHONY: e2e-tools
e2e-tools: $(STAMP)  ## Build the real components (Go; about 15 minutes once, then nothing)
	$(BIN)/python -m e2e.build_tools

.PHONY: e2e
e2e: e2e-tools  ## Prove the objects on the real components, and a core of what Pulumi does with them
	$(BIN)/python -m pytest e2e -m 'not long and not upstream and (core or not engine)'

.PHONY: e2e-upstream
e2e-upstream: e2e-tools  ## Prove what other projects' releases do, such as how strategies balance; run it weekly
	$(BIN)/python -m pytest e2e -m upstream

.PHONY: e2e-engine
e2e-engine: e2e-tools  ## Prove all that Pulumi does with them (needs the engine on PATH)
	$(BIN)/python -m pytest e2e/engine -m 'not long' -n 3 --dist loadfile

.PHONY: e2e-full
e2e-full: e2e-tools  ## The same with the long random runs
	$(BIN)/python -m pytest e2e -n 3 --dist loadfile

.PHONY: cluster
cluster: e2e-tools  ## Start a local cluster of real components with fake GPU nodes, until Ctrl-C
	$(BIN)/python -m e2e.cluster

SERVE_TOOLS := coredns etcd kubernetes kubernetes-node lws-0.9 volcano epp-1.2 epp-1.5 gateway-api prometheus-operator keda

.PHONY: serve-tools
serve-tools: $(STAMP)  ## Build and install what real pods need (root, containerd, uv; Go; 7 GB)
	$(BIN)/python -m e2e.serve.prerequisites
	$(BIN)/python -m e2e.build_tools --only $(SERVE_TOOLS)
	$(BIN)/python -m e2e.serve.engine

.PHONY: serve
serve: serve-tools  ## Serve tokens from real pods on this machine (as root), until Ctrl-C
	$(BIN)/python -m e2e.serve

# Only tests need them: Envoy Gateway takes ten minutes to build.
.PHONY: guard-tools
guard-tools: $(STAMP)
	$(BIN)/python -m e2e.build_tools --only envoy-gateway keda-operator kube-network-policies istio agentgateway

.PHONY: e2e-serve
e2e-serve: serve-tools guard-tools  ## Prove what needs real engines (as root; an older release: 6 GB more)
	-$(BIN)/python -m e2e.serve.engine --vllm 0.11.0  # else what needs them is skipped
	$(BIN)/python -m e2e.serve.enclosure $(BIN)/python -m pytest e2e/serve

.PHONY: e2e-serve-core
e2e-serve-core: serve-tools  ## The part of it that CI runs
	$(BIN)/python -m e2e.serve.enclosure $(BIN)/python -m pytest e2e/serve -m 'not long' --durations=10

.PHONY: bench
bench: $(STAMP)  ## Measure the component, planning and start-up
	$(BIN)/python -m benchmarks

.PHONY: regenerate
regenerate: $(STAMP)  ## Write every file that follows from the code anew: goldens, examples, generated files, pages
	$(BIN)/python tools/regenerate.py

.PHONY: size
size: $(STAMP)  ## Print lines, statements and rules of each package, and the change since the last release
	$(BIN)/python tools/code_size.py

.PHONY: schemas
schemas: $(STAMP)  ## Write the schemas of the rendered kinds anew, from the pinned Go modules (Go)
	$(BIN)/python tools/schemas.py

.PHONY: pickers
pickers: $(STAMP)  ## Write the tables of endpoint pickers anew, from their Go modules (Go; llm-d's: see the tool)
	$(BIN)/python tools/picker_plugins.py

.PHONY: compare
compare: $(STAMP)  ## Compare 2,500 drawn services with another version: make compare OLD=CHECKOUT
	$(BIN)/python tools/compare_versions.py $(OLD)

.PHONY: constraints
constraints:  ## Compile constraints.txt anew (needs uv)
	uv pip compile -q pyproject.toml --extra dev --extra e2e --extra package --universal --python-version 3.10 \
	  --no-emit-index-url --no-header --no-annotate --upgrade -o constraints.txt

.PHONY: clean
clean:  ## Remove what the targets made, but not the built components
	rm -rf $(VENV) .venvs .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
