# Every command that a reader of the README needs; `make` alone explains them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Workers share Kafka, Artemis and Redis, and one of them runs the tests with Spark. Tests on servers wait for half of their
# time, so five keep two cores busy.
WORKERS ?= 5
WORKED = $(BIN)/python -m pytest --numprocesses $(WORKERS)
SUITE := $(WORKED) --dist loadfile --no-loadscope-reorder --durations 20
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation
UV_COMPILE := uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-header --no-annotate --quiet

# In an environment that forbids bytecode, every process of the suite would compile the product again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run run-pipeline java check checked test suite soak sanitize fuzz bench races kills busy mutants conformance lint parts wheel lock clean

help: ## explain these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/.runtime ## install, then start the guided demonstration and continue to serve (ARGS=--once exits after it)
	@$(BIN)/scopegate quickstart $(ARGS)

run-pipeline: $(VENV)/.tests java ## install, then demonstrate the data pipeline: archive, simulate, replay, report (ARGS=--once)
	@$(BIN)/scopegate pipeline quickstart --folder build/pipeline $(ARGS)

java:
	@command -v java >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
		{ apt-get -qq update && apt-get -qq install -y --no-install-recommends openjdk-17-jre-headless >/dev/null; }

# mypy takes half a minute of one core on a new clone: both `check` and `test` run tests meanwhile.
# Tests without servers wait for a quarter of their time: three workers do.
checked: WORKERS := 3
check: $(VENV)/.tests ## everything that needs no server: lint, types, import contracts, unit, protocol and property tests (WORKERS=3)
	@$(MAKE) --no-print-directory --jobs 2 lint checked

checked:
	$(WORKED) --quiet --dist worksteal --tier check tests/property tests/protocol tests/unit $(ARGS)

test: parts ## everything in check, and all tests on real servers; conformance, coverage, durations (WORKERS=5)
	@$(MAKE) --no-print-directory --jobs 2 lint suite

suite:
	$(BIN)/python -m tests.coverage build/coverage
	SCOPEGATE_COVERAGE=build/coverage $(SUITE) $(ARGS)

bench: $(VENV)/.tests parts ## measure speed and memory against baselines; writes build/bench.json
	$(BIN)/python -m tests.bench $(ARGS)

soak: $(VENV)/.fuzz parts ## draw kills, full disks, three brokers, deep properties and fuzzing until MINUTES=20 are over (SEED= to replay)
	$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),20) $(if $(SEED),--seed $(SEED)) $(ARGS)

kills: $(VENV)/.tests parts ## kill a gateway that delivers subscriptions 200 times, in drawn phases (KILLS=, SEED= to replay)
	SCOPEGATE_KILLS=$(or $(KILLS),200) SCOPEGATE_SEED=$(SEED) $(BIN)/python -m pytest --quiet -s -n0 \
		tests/integration/subscriptions/faults/test_kills.py::test_kills_in_drawn_phases_lose_nothing $(ARGS)

sanitize: $(VENV)/.tests ## run the tests of the C modules under AddressSanitizer and UBSan; any report fails
	$(BIN)/python -m tests.sanitize $(ARGS)

fuzz: $(VENV)/.fuzz ## run coverage-guided fuzzing, MINUTES=10 for each target (TARGET= for a single one, SEED=)
	$(BIN)/python -m tests.fuzz --minutes $(or $(MINUTES),10) $(if $(TARGET),--target $(TARGET)) $(if $(SEED),--seed $(SEED)) $(ARGS)

races: $(VENV)/.tests parts ## run the thirty tests that depend most on timing, twenty times beside a busy loop (ARGS="--rounds 5 --only drain")
	$(BIN)/python -m tests.races $(ARGS)

busy: $(VENV)/.tests parts ## run the whole suite once beside a busy loop on one core
	$(BIN)/python -m tests.races --suite --workers $(WORKERS) $(ARGS)

mutants: $(VENV)/.tests parts ## break the product at random places; print the changes that no test notices (COUNT=150)
	$(BIN)/python -m tests.mutation --count $(or $(COUNT),150) $(ARGS)

conformance: $(VENV)/.tests parts ## list every row of docs/conformance.md with its tests; writes build/conformance.json
	@$(SUITE) --quiet --conformance $(ARGS)

lint: $(VENV)/.tests ## run ruff, mypy --strict, import contracts, and check subjects of commits
	$(BIN)/ruff check .
	$(BIN)/python scripts/subjects.py
	$(BIN)/mypy
	$(BIN)/lint-imports

parts: $(VENV)/.tests ## fetch the servers and clients that the suite needs into build/parts
	@$(BIN)/python -m tests.support.project.parts

wheel: $(VENV)/.tests ## build a manylinux wheel into build/wheels
	@rm -rf build/wheel
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir build/wheel .
	PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/python -m auditwheel repair --wheel-dir build/wheels build/wheel/*.whl

lock: ## write the lock files again from pyproject.toml (needs uv)
	$(UV_COMPILE) --upgrade --output-file requirements.lock
	$(UV_COMPILE) --constraints requirements.lock --extra spark --extra delta --extra iceberg --extra mqtt --extra nats --extra otel --extra registry --extra test --output-file requirements-test.lock
	$(UV_COMPILE) --constraints requirements-test.lock --extra fuzz --output-file requirements-fuzz.lock
	$(UV_COMPILE:pyproject.toml=) --constraints requirements-test.lock --group build --output-file requirements-build.lock

clean: ## remove the environment and everything built
	rm -rf $(VENV) build *.egg-info

# pip verifies every hash; build isolation is off so that the build tools come from a lock file as well.
$(VENV)/.runtime: requirements-build.lock requirements.lock pyproject.toml $(shell find gateway bridges -name '*.[ch]')
	@command -v $(PYTHON) >/dev/null || { echo "python3 (3.11 or later) is missing: apt-get install python3 python3-venv python3-dev gcc"; exit 1; }
	@$(PYTHON) scripts/preflight.py
	@echo "Installing into $(VENV) (python-qpid-proton is compiled: about half a minute) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --require-hashes -r requirements-build.lock
	@$(PIP) --require-hashes -r requirements.lock
	@$(PIP) --no-deps --editable .
	@touch $@

$(VENV)/.tests: requirements-test.lock $(VENV)/.runtime
	@$(PIP) --require-hashes -r requirements-test.lock
	@touch $@

$(VENV)/.fuzz: requirements-fuzz.lock $(VENV)/.tests
	@$(PIP) --require-hashes -r requirements-fuzz.lock
	@touch $@
