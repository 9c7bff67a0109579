# `make help` lists what can be made. Everything is installed into .venv, from pyproject.toml.
#   PYTHON=python3.12   the interpreter to start from, 3.11 or later
#   SLOW=1              the slow tests too, and all of each long sweep
#   TORCH=1             the tests of the PyTorch frontend too: installs PyTorch
#   JOBS=3              processes that run tests: one more than cores, as each waits for LLVM at times
#   BENCH=kernels       what is measured: models, kernels, ops, arrays, shapes, decode, calls, load,
#                       compile, ship, scale, picks, estimates, candidates, host, narrow, accuracy, regression
#   ARGS='-k tile'      more arguments for pytest, the demo or the benchmark

PYTHON ?= python3
JOBS ?= 3
BENCH ?= models
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@sed -n 's/^#   /  /p' $(MAKEFILE_LIST)

# What .venv is made of. A virtual environment works only where it was made, so .made tells where.

ifneq ($(shell cat $(VENV)/.made 2>/dev/null),$(CURDIR))
.PHONY: $(VENV)/.made
endif

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'tessella needs Python 3.11 or later: make PYTHON=python3.x'; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	@printf '%s\n' '$(CURDIR)' > $@

$(VENV)/.%: $(VENV)/.made pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	$(if $(ALONE_$*),$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps $(ALONE_$*))
	@touch $@

# Packages that an extra installs without their dependencies: tritonclient requires a version of ml_dtypes
# that is older than ours, and works with either.
ALONE_test := tritonclient==2.73.0
ALONE_test-torch := $(ALONE_test)

# The test extra includes the demo's and the site's.
DEMO := $(firstword $(wildcard $(VENV)/.test) $(VENV)/.demo)
DOCS := $(firstword $(wildcard $(VENV)/.test) $(VENV)/.docs)

.PHONY: demo
demo: $(DEMO) ## compile a network that reads digits, run it, show what was decided
	$(BIN)/python examples/digits/demo.py $(ARGS)

.PHONY: test
test: $(VENV)/.test$(if $(TORCH),-torch) ## all checks: style, types, layers, tests
	@$(MAKE) --no-print-directory --jobs=2 lint pytest

.PHONY: smoke
smoke: $(VENV)/.test ## whether anything works at all, in seconds
	$(BIN)/ruff check --quiet
	$(BIN)/python -m pytest --quiet tests/test_smoke.py $(ARGS)

.PHONY: lint
lint: $(VENV)/.test ## style, types, layers, docstrings
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/basedpyright --project pyproject.toml --pythonpath $(BIN)/python
	$(BIN)/lint-imports
	$(BIN)/python -m docs.docstrings

.PHONY: pytest
pytest: $(VENV)/.test $(if $(SLOW),emulators) ## the tests alone, filecheck's among them
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(if $(SLOW),--slow) $(ARGS)

.PHONY: test-op-info
test-op-info: $(VENV)/.test-torch ## all of PyTorch's samples of its ops, forward and backward, in minutes
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --slow tests/frontends/torch/op_info.py $(ARGS)

# What runs whole programs for AArch64 on other machines, as Debian and Ubuntu name it.
EMULATORS := qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross

.PHONY: emulators
emulators: ## an emulator of AArch64 and a compiler for it, installed with apt by root
	@{ command -v qemu-aarch64 && command -v aarch64-linux-gnu-gcc; } >/dev/null || \
		{ test "$$(id -u)" = 0 && apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $(EMULATORS); } >/dev/null 2>&1 || \
		echo 'Tests of whole programs for AArch64 are skipped. To run them: apt-get install $(EMULATORS)'

.PHONY: test-aarch64
test-aarch64: $(VENV)/.test emulators ## code for AArch64: kernels and models in emulators, all cases
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --slow tests/kernels tests/codegen tests/lowering/test_threads.py \
		tests/driver/test_targets.py tests/driver/test_qemu.py -k 'neon or aarch64 or qemu or spill' $(ARGS)

.PHONY: test-scale
test-scale: $(VENV)/.test-scale ## Dask, Ray and Spark on this machine; Java is installed with apt by root
	@command -v java >/dev/null || { test "$$(id -u)" = 0 && apt-get update -qq && \
		apt-get install -qq -y --no-install-recommends default-jre-headless; } || \
		echo 'without java, Spark is left out'
	$(BIN)/python -m pytest --slow tests/examples/test_clusters.py tests/tools/batch $(ARGS)

.PHONY: format
format: $(VENV)/.test ## put the source into its form
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

.PHONY: pages
pages: $(VENV)/.test ## what is generated in docs/: pages of ops and options, and the output of commands
	$(BIN)/python -m docs.generated --write
	$(BIN)/python -m docs.snippets --write

.PHONY: docs
docs: $(DOCS) ## the documentation as a site in build/site, with all links checked
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

.PHONY: bench
bench: $(VENV)/.bench ## measure against other runtimes
	$(BIN)/python -m bench.$(BENCH) $(ARGS)

.PHONY: release
release: $(VENV)/.release ## build the distributions in dist/ twice, check them, and write their SBOM
	rm -rf dist
	$(BIN)/python -m release.build dist
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python -m release.licences | diff docs/licences.md -
	$(BIN)/python -m release.sbom dist/sbom.cdx.json
	cd dist && sha256sum * > SHA256SUMS

.PHONY: fresh
fresh: ## test the wheel in dist/ in a fresh environment for each extra; ARGS='onnx numpy'
	$(PYTHON) -m venv build/fresh
	build/fresh/bin/pip install --quiet packaging
	build/fresh/bin/python -m release.fresh dist/*.whl $(ARGS)

.PHONY: clean
clean: ## remove what was made, .venv too
	rm -rf $(VENV) build dist src/*.egg-info .hypothesis .import_linter_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
