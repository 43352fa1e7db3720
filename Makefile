# Every target sets up what it needs; nothing here needs root. `make help` lists them.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= 2
# Where tests wait for processes and for clusters more than they compute; each takes up to 1.5 GB of memory.
WAITING ?= $(shell expr 2 \* $(WORKERS))
# A bench waits about half of its time, and brings a cluster of its own.
BENCHES ?= $(shell expr $(WORKERS) + 1)
# Those of a module have one control plane, or start one: they stay together.
BY_MODULE := --dist worksteal
# A process that hangs in torch does not hear a signal: it says where each thread stands, and is ended.
IN_TORCH := -o faulthandler_timeout=290 --timeout 300 --timeout-method thread
PYTEST := $(BIN)/python -m pytest
TORCH = $(shell sed -n 's/.*"torch>=\([0-9.]*\),.*/\1/p' pyproject.toml)
OLDEST_TORCH = .oldest-torch
OLDEST_FRAMEWORKS = .oldest-frameworks
TORCHTITAN = .torchtitan
MKDOCS = .mkdocs
# The lower bounds of the extra `integrations`, and what they need in versions of their time.
FRAMEWORKS = $(shell sed -n '/^integrations = /,/^]/s/.*"\([a-z]*\)>=\([0-9.]*\),.*/\1==\2.*/p' pyproject.toml) 'huggingface-hub<1' 'tokenizers>=0.22,<0.23'
INSTALL := $(BIN)/uv pip install --quiet --python $(BIN)/python
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header

# Tests start hundreds of processes. If the shell forbids Python to write compiled modules, each of them compiles ours again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup lint format types docs test test-unit test-deep test-trainer test-integration test-training test-azure test-lives test-panels test-faults campaign test-demo bench-smoke bench-market bench-scaling test-oldest test-oldest-torch test-oldest-frameworks test-torchtitan test-gpu e2e e2e-short e2e-down demo demo-down crds chart lock binaries cluster-up cluster-down clean

##@ Set up

help: ## list the targets, by what they are for
	@echo "Times are those of two cores, once everything is built."
	@awk -F':.*## | ~ ' '/^##@/{printf "\n\033[1m%s\033[0m\n", substr($$0, 5)} \
		/^[a-z0-9-]+:.*## /{printf "  \033[1m%-18s\033[0m %-11s  %s\n", $$1, $$3, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## create .venv from the lock file; does nothing when it is up to date ~ 2 min

# With the same Python what is there stays: a changed line of the lock costs seconds, not gigabytes.
$(READY): requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) was not found. Install Python 3.11 or newer, or name the one to use: make PYTHON=python3.13 ..."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is $$($(PYTHON) -V), but spotrun needs 3.11 or newer: make PYTHON=python3.13 ..."; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments. On Debian: apt-get install python3-venv"; exit 1; }
	@echo "setting up $(VENV) from requirements.lock"
	@[ -x $(BIN)/uv ] && [ "$$($(BIN)/python -V)" = "$$($(PYTHON) -V)" ] || { \
		$(PYTHON) -m venv --clear $(VENV) && \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r locks/setup.lock; }
	@$(INSTALL) --compile-bytecode --require-hashes -r requirements.lock || { echo "$(VENV) was not set up. It takes 7 GB, and none where uv's cache has the packages and is on the same disk; free here: $$(df -h --output=avail . | tail -1). A mirror of PyPI is named with UV_DEFAULT_INDEX=https://..., for uv does not read pip's settings."; exit 1; }
	@$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

binaries: setup ## build Kubernetes, Helm, Prometheus, an S3 server and Kueue into the cache; does nothing when they are there ~ 18 min once
	@$(BIN)/python -m devcluster build >/dev/null
	@$(BIN)/python -m devcluster build --s3 >/dev/null
	@$(BIN)/python -m devcluster build --kueue >/dev/null
	@$(BIN)/python -m charts --programs

lock: setup ## resolve pyproject.toml anew, for every platform, with hashes: requirements.lock, and locks/ for images
	$(COMPILE) --upgrade --extra dev pyproject.toml -o requirements.lock
	$(COMPILE) --constraint requirements.lock --extra operator --extra aws --extra tuning pyproject.toml -o locks/operator.lock
	echo numpy | $(COMPILE) --constraint requirements.lock --extra trainer --extra store --extra data pyproject.toml - -o locks/trainer.lock
	$(COMPILE) --constraint requirements.lock --extra docs pyproject.toml -o locks/docs.lock
	echo hatchling | $(COMPILE) --constraint requirements.lock - -o locks/build.lock
	echo uv | $(COMPILE) --constraint requirements.lock - -o locks/setup.lock

clean: ## remove .venv and caches of tools, not the cached binaries
	rm -rf $(VENV) $(OLDEST_TORCH) $(OLDEST_FRAMEWORKS) $(MKDOCS) .site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

##@ Check, and write what is generated

lint: setup ## ruff (lint, format), the layer contracts, and drift of the generated CRDs ~ 15 s
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports
	$(BIN)/python -m spotrun.api.crd --check

format: setup ## let ruff format and mend what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

types: setup ## mypy --strict over everything; the second time it knows what has not changed ~ 1 min
	$(BIN)/mypy
	$(BIN)/mypy --python-version 3.10 trainer_image/spotrun_trainer operator/spotrun/wire

# It stands beside .venv: nothing of the product needs it. The theme says at each start that its makers go on to another
# generator, and that this one is kept until May 2027: the variable silences that.
docs: setup ## the documents as a site in .site, with --strict; fetches mkdocs: 120 MB ~ 4 s
	@[ -f $(MKDOCS)/.ready ] && [ $(MKDOCS)/.ready -nt locks/docs.lock ] || { echo "fetching mkdocs into $(MKDOCS)"; rm -rf $(MKDOCS); $(INSTALL) --no-deps --require-hashes --target $(MKDOCS) -r locks/docs.lock && touch $(MKDOCS)/.ready; }
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=$(CURDIR)/$(MKDOCS):$(CURDIR) $(BIN)/python -m mkdocs build --strict --config-file website/mkdocs.yml

crds: setup ## write crds/*.yaml and docs/api.md from the models in spotrun.api
	$(BIN)/python -m spotrun.api.crd

chart: setup ## write manifests/, the chart's README and docs/configuration.md from charts/spotrun; builds Helm where there is none
	$(BIN)/python -m charts

##@ Test

test: test-unit test-trainer test-integration bench-smoke ## what every change has to pass: test-unit, test-trainer, test-integration, bench-smoke ~ 30 min

test-unit: setup ## pure tests ~ 2.5 min
	$(PYTEST) tests/unit -n $(WORKERS) --ignore=tests/unit/trainer

test-trainer: setup ## the trainer alone: real processes and collectives on the CPU ~ 6 min
	$(PYTEST) tests/unit/trainer -n $(WAITING) --maxschedchunk 2 $(IN_TORCH)

test-integration: binaries ## API, operator and faults on a real etcd, API server, controller manager and scheduler ~ 15 min
	$(PYTEST) tests/integration $(addprefix --ignore=tests/integration/,bench demo trainer) -n $(WAITING) $(BY_MODULE)

test-lives: binaries ## part of test-integration: whole lives of spot jobs, undisturbed and with the operator killed ~ minutes
	$(PYTEST) tests/integration/spot/test_lives.py -n $(WAITING)

test-panels: binaries ## part of test-integration: alerts and panels, also asked of a live Prometheus ~ 1 min
	$(PYTEST) tests/integration/monitoring -n $(WORKERS)

test-faults: binaries ## lives of jobs with their writes disturbed: about 80 plans; ALL=1: every plan ~ 3 min
	$(PYTEST) tests/integration/faults -n $(WAITING) $(if $(ALL),--all-plans)

campaign: binaries ## faults of every kind at random moments; KINDS=, SCENARIOS=, SEED=, HOURS=, or PLAN= to repeat one ~ 10 min
	$(BIN)/python bench/campaign.py --seed $(or $(SEED),0) --hours $(or $(HOURS),0.15) $(if $(KINDS),--kinds $(KINDS)) $(if $(SCENARIOS),--scenarios $(SCENARIOS)) $(if $(PLAN),--plan $(PLAN) --journal .campaign/repeated.jsonl)

test-demo: binaries ## the demo as a process, by what it shows and leaves behind ~ minutes
	$(PYTEST) tests/integration/demo

test-training: binaries ## jobs whose pods are real torchruns, under the operator ~ minutes
	$(PYTEST) tests/integration/trainer

test-azure: binaries ## checkpoints and data in Azure's own server for tests, and a job; needs Node.js 20 with npm, fetches 360 MB once ~ 2 min
	@$(BIN)/python -m devcluster build --azurite >/dev/null
	SPOTRUN_STORES=az $(PYTEST) tests/integration/stores tests/integration/trainer/test_object_store.py -k az -n $(WAITING) $(BY_MODULE)

test-deep: setup ## the properties among the unit tests, with thousands of examples ~ minutes
	HYPOTHESIS_PROFILE=deep $(PYTEST) tests/unit -n $(WORKERS)

test-oldest: setup ## API, admission and lives of jobs on the oldest supported Kubernetes; builds a second set of binaries
	$(BIN)/python -m devcluster build --kubernetes oldest
	SPOTRUN_KUBERNETES=oldest $(PYTEST) tests/integration/api tests/integration/manifests tests/integration/controller tests/integration/process -n $(WAITING) $(BY_MODULE)

test-oldest-torch: setup ## the trainer on the oldest supported torch; fetches it: 7 GB
	@[ -f $(OLDEST_TORCH)/.ready ] || { echo "fetching torch $(TORCH) into $(OLDEST_TORCH)"; rm -rf $(OLDEST_TORCH); $(INSTALL) --target $(OLDEST_TORCH) 'torch==$(TORCH).*' && touch $(OLDEST_TORCH)/.ready; }
	PYTHONPATH=$(CURDIR)/$(OLDEST_TORCH) $(PYTEST) tests/unit/trainer -n $(WAITING) --maxschedchunk 2 $(IN_TORCH)

# Several processes on CPUs are devices `cpu:0` to an older accelerate, where torch loads nothing to.
test-oldest-frameworks: setup ## adapters on the oldest transformers, accelerate and lightning that are supported ~ 2 min
	@[ -f $(OLDEST_FRAMEWORKS)/.ready ] || { echo "fetching $(FRAMEWORKS) into $(OLDEST_FRAMEWORKS)"; rm -rf $(OLDEST_FRAMEWORKS); $(INSTALL) --no-deps --target $(OLDEST_FRAMEWORKS) $(FRAMEWORKS) && touch $(OLDEST_FRAMEWORKS)/.ready; }
	ACCELERATE_TORCH_DEVICE=cpu PYTHONPATH=$(CURDIR)/$(OLDEST_FRAMEWORKS) $(PYTEST) tests/unit/trainer/integrations -n $(WORKERS)

# It needs older versions of packages that transformers needs newer, so it stands beside .venv.
test-torchtitan: setup ## the adapter with torchtitan's own Trainer; fetches it: 280 MB ~ 2 min
	@[ -f $(TORCHTITAN)/.ready ] || { echo "fetching torchtitan into $(TORCHTITAN)"; rm -rf $(TORCHTITAN); $(INSTALL) --no-deps --target $(TORCHTITAN) -r locks/torchtitan.txt && touch $(TORCHTITAN)/.ready; }
	PYTHONPATH=$(CURDIR)/$(TORCHTITAN) $(PYTEST) tests/unit/trainer/integrations/test_torchtitan.py

e2e: setup ## the built images on real kubelets: kind with Docker, or with podman as root (KEEP=1 leaves it up; CLUSTER=existing: on a cluster of yours, see tests/e2e/README.md)
	KEEP=$(KEEP) $(PYTEST) tests/e2e -v --timeout 3600

e2e-short: setup ## of these what every change is tried with: a training, notices, a power loss, deletion ~ 6 min
	KEEP=$(KEEP) $(PYTEST) tests/e2e -m short -v --timeout 3600

e2e-down: setup ## remove a kind cluster that was left up
	@$(BIN)/python -m tests.e2e.kind down

##@ Measure

test-gpu: setup ## what needs a GPU: the tests that are marked so, then bench/gpu.py; says so where there is none ~ 4 min
	@if $(BIN)/python -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then \
		$(PYTEST) tests/unit/trainer -m gpu $(IN_TORCH) && $(BIN)/python bench/gpu.py; \
	else echo "NOT RUN: PyTorch sees no GPU on this machine"; fi

bench-smoke: binaries ## every bench in a small size ~ minutes
	$(PYTEST) tests/integration/bench -n $(BENCHES) --maxschedchunk 1

bench-market: setup ## what jobs cost on recorded spot markets: ours, its peers and the optimum, as JSON lines ~ 1 h
	$(BIN)/python bench/market.py --jobs $(WORKERS)

bench-scaling: setup ## what sizing a job saves: against fixed sizes and an HPA, on simulated curves, as JSON lines ~ 15 min
	$(BIN)/python bench/scaling.py --jobs $(WORKERS)

##@ Try it

demo: setup ## watch a training job lose two nodes and go on (KEEP=1 leaves it up, S3=1 saves in a bucket, RECORD=file.svg draws it) ~ 1 min
	@$(BIN)/python -m demo $(if $(KEEP),--keep) $(if $(S3),--s3) $(if $(RECORD),--record $(RECORD))

demo-down: setup ## end a demo that was left up
	@$(BIN)/python -m demo --down

cluster-up: setup ## start a Kubernetes on this machine, and say how to use it
	@$(BIN)/python -m devcluster up

cluster-down: setup ## end it and remove its files
	@$(BIN)/python -m devcluster down
