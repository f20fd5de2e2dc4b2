# Every target installs what it needs into .venv; `make help` lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Marks an installation without development tools: enough for `plan`.
RUNTIME := $(VENV)/.runtime
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
# The packages that ship separately from the core.
PACKAGES := -e ./importers -e ./capacity
# Each worker collects all tests, so more than eight are slower.
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
demo: $(RUNTIME)  ## Show the objects of the DeepSeek-R1 example, and how many of its replicas run on 80 to 16 GPUs
	$(BIN)/fusioninfer-pulumi plan examples/deepseek-disagg --gpus 80,64,48,32,16

# Test workers and the processes they start share the bytecode cache.
test test-long: export PYTHONDONTWRITEBYTECODE =

.PHONY: test
test: $(STAMP)  ## Run the fast tests on all CPUs
	$(BIN)/python -m pytest -q $(PARALLEL)

.PHONY: test-long
test-long: $(STAMP)  ## Run property tests with many more examples, and the slow tests
	$(BIN)/python -m pytest -q $(PARALLEL) -m 'hypothesis or slow' --hypothesis-profile=long

.PHONY: coverage
coverage: $(STAMP)  ## Run the fast tests and list lines and branches that are not covered
	$(BIN)/python -m pytest -q --cov --cov-report=term

.PHONY: lint
lint: $(STAMP)  ## Check style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tools/check_types.py

.PHONY: docs
docs: $(STAMP)  ## Build the documentation site into site/; warnings are errors
	$(BIN)/mkdocs build --strict --quiet

.PHONY: package
package: $(STAMP)  ## Build the packages, and test the wheel with every installed Python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[package]'
	$(BIN)/python tools/check_package.py

.PHONY: release-files
release-files: $(STAMP)  ## Build sdists, wheels, plugin, SBOM and, with the Pulumi CLI, SDKs into dist/
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[package]'
	$(BIN)/python tools/release_files.py

.PHONY: test-pythons
test-pythons: $(STAMP)  ## Run the fast tests on every installed Python from 3.10 to 3.13
	$(BIN)/python tools/test_pythons.py

.PHONY: test-other-pythons
test-other-pythons: $(STAMP)  ## Run the fast tests on the other installed Pythons; fewer tests between the oldest and newest
	$(BIN)/python tools/test_pythons.py --others --brief

.PHONY: check
check: lint test test-other-pythons  ## Run everything that needs no Go: lint, types, tests on all Pythons

.PHONY: e2e-tools
e2e-tools: $(STAMP)  ## Build the real components (needs Go; about 15 minutes the first time)
	$(BIN)/python -m e2e.build_tools

.PHONY: e2e
e2e: e2e-tools  ## Test the objects on real components, and the component on the Pulumi engine (core tests)
	$(BIN)/python -m pytest e2e -m 'not long and not upstream and (core or not engine)'

.PHONY: e2e-upstream
e2e-upstream: e2e-tools  ## Test the behavior of other projects' releases, such as load balancing; run it weekly
	$(BIN)/python -m pytest e2e -m upstream

.PHONY: e2e-engine
e2e-engine: e2e-tools  ## Test the component on the Pulumi engine (needs Pulumi and its plugins on PATH)
	$(BIN)/python -m pytest e2e/engine -m 'not long' -n 3 --dist loadfile

.PHONY: e2e-full
e2e-full: e2e-tools  ## Run all tests in e2e, including the long random ones
	$(BIN)/python -m pytest e2e -n 3 --dist loadfile

.PHONY: cluster
cluster: e2e-tools  ## Start a local cluster of real components with fake GPU nodes, until Ctrl-C
	$(BIN)/python -m e2e.cluster

SERVE_TOOLS := coredns etcd kubernetes kubernetes-node lws-0.9 volcano epp-1.2 epp-1.5 gateway-api prometheus-operator keda

.PHONY: serve-tools
serve-tools: $(STAMP)  ## Build and install what real pods need (root, containerd, uv, Go, 7 GB)
	$(BIN)/python -m e2e.serve.prerequisites
	$(BIN)/python -m e2e.build_tools --only $(SERVE_TOOLS)
	$(BIN)/python -m e2e.serve.engine

.PHONY: serve
serve: serve-tools  ## Serve tokens from real pods on this machine (as root), until Ctrl-C
	$(BIN)/python -m e2e.serve

# Only tests need these components; Envoy Gateway takes ten minutes to build.
.PHONY: e2e-serve-tools
e2e-serve-tools: $(STAMP)
	$(BIN)/python -m e2e.build_tools --only envoy-gateway keda-operator kube-network-policies istio agentgateway

.PHONY: e2e-serve
e2e-serve: serve-tools e2e-serve-tools  ## Run all tests with real engines (as root; 6 GB more for an older release)
	-$(BIN)/python -m e2e.serve.engine --vllm 0.11.0  # without it, tests of this release are skipped
	$(BIN)/python -m e2e.serve.sandbox $(BIN)/python -m pytest e2e/serve

.PHONY: e2e-serve-core
e2e-serve-core: serve-tools  ## Run the tests with real engines that CI runs
	$(BIN)/python -m e2e.serve.sandbox $(BIN)/python -m pytest e2e/serve -m 'not long' --durations=10

.PHONY: bench
bench: $(STAMP)  ## Measure the component, planning and startup
	$(BIN)/python -m benchmarks

.PHONY: regenerate
regenerate: $(STAMP)  ## Regenerate all files derived from the code: goldens, examples, generated modules and pages
	$(BIN)/python tools/regenerate.py

.PHONY: size
size: $(STAMP)  ## Print lines, statements and rules of each package, and the change since the last release
	$(BIN)/python tools/code_size.py

.PHONY: schemas
schemas: $(STAMP)  ## Regenerate the schemas of the rendered kinds from pinned Go modules (needs Go)
	$(BIN)/python tools/schemas.py

.PHONY: pickers
pickers: $(STAMP)  ## Regenerate the tables of endpoint picker plugins from Go modules (needs Go; llm-d: see the tool)
	$(BIN)/python tools/picker_plugins.py

.PHONY: compare
compare: $(STAMP)  ## Compare 2,500 random services with another version: make compare OLD=CHECKOUT
	$(BIN)/python tools/compare_versions.py $(OLD)

.PHONY: constraints
constraints:  ## Update constraints.txt (needs uv)
	uv pip compile -q pyproject.toml --extra dev --extra e2e --extra package --universal --python-version 3.10 \
	  --no-emit-index-url --no-header --no-annotate --upgrade -o constraints.txt

.PHONY: clean
clean:  ## Remove generated files and environments, but keep the built components
	rm -rf $(VENV) .venvs .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
