# `make run` and `make test` set themselves up; `make help` lists everything.
# TORCH, EXTRAS and PYTHON may be given on the command line or in the environment, PORT and HOST on the command line alone:
# shells and containers set variables of these names for purposes of their own.

VENV := .venv
TORCH_PIN := torch==2.13.0
TORCH ?= $(TORCH_PIN)
EXTRAS ?=
PYTHON ?=
ARGS ?=
TABLES ?=
CUDA_BASE ?=
# Tests start hundreds of processes, none of which should compile the project again
export PYTHONDONTWRITEBYTECODE :=

WHERE := $(if $(filter command,$(origin HOST)),--host $(HOST)) $(if $(filter command,$(origin PORT)),--port $(PORT))

BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest -m "not gpu"
# The tests in parts, a process each: every process pays only for importing what its own files need; a new file lands in
# one by itself. All at once on two processors, beside lint and types: each waits for much, and one that began later would be
# what the run ends with. Up to three tests of a part that failed beside others run again with nothing beside them (a fourth
# fails the run), and their names are the last that is said.
PAGES := $(wildcard tests/browser/test_[a-m]*.py)
SERVERS := tests/app/runs $(wildcard tests/app/test_*.py)
PART_pages-1 := tests/recipes $(PAGES)
PART_pages-2 := tests/browser $(PAGES:%=--ignore %)
PART_servers := $(SERVERS)
RANKS := tests/runners/backends tests/runners/benchmarks tests/runners/parallel
PART_ranks := $(RANKS)
PART_runners := tests/runners $(RANKS:%=--ignore %)
PART_app := tests/app $(SERVERS:%=--ignore %)
PART_rest := $(addprefix --ignore , tests/recipes tests/browser tests/runners tests/app)
BROWSING := part-pages-1 part-pages-2
OTHERS := part-ranks part-rest part-app part-runners part-servers
JOBS := $(shell echo $$(($$(nproc 2>/dev/null || echo 2) + 7)))
FAILED := $(VENV)/failed
NODE := $(BIN)/node
PRETTIER := $(NODE) node_modules/prettier/bin/prettier.cjs
PRETTY := static/js static/css tests/browser/firefox.mjs eslint.config.js jsconfig.json package.json
PIP := $(BIN)/pip --disable-pip-version-check --no-input
# The stamps carry the torch and the extras they stand for, so that others set up again.
SETUP_KEY := $(shell printf '%s' '$(TORCH) $(EXTRAS)' | cksum | cut -d ' ' -f 1)
comma := ,
READY := $(VENV)/ready-run-$(SETUP_KEY)
READY_TEST := $(VENV)/ready-test-$(SETUP_KEY)
READY_NODE := node_modules/ready-node

.DEFAULT_GOAL := help
.PHONY: help pictures run test test-browser test-others test-gpu explore setup setup-test browser firefox postgres slurm check format lint types bench accuracy clean docker

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22
	@echo
	@echo '  make run PORT=8001                    another port; HOST=ADDRESS another address (README.md, Data)'
	@echo '  make run ARGS="--data DIR"            options of `headroom serve`'
	@echo '  make run TORCH=torch==2.13.0+cu126    another build of torch; pip reads its indexes from PIP_EXTRA_INDEX_URL'
	@echo '  make run EXTRAS=postgres,tables       with the driver of PostgreSQL, and with Parquet and Excel'
	@echo '  make accuracy TABLES=DIR              with the tables of measured runs in DIR; ARGS=--write keeps the figures'
	@echo '  make run PYTHON=/path/to/python3      another interpreter, 3.11 or newer'
	@echo
	@echo '  What a run measured is on the page: a step in Explore, rows in Measured, beside their predictions (docs/measuring.md)'

run: setup ## set up what is missing, then serve the dashboard on http://127.0.0.1:8000
	@exec $(BIN)/headroom serve $(strip $(WHERE) $(ARGS))

test: setup-test browser firefox postgres slurm ## set up what is missing, then run every check and every test
	@$(MAKE) --no-print-directory $(if $(ARGS),lint types,-k -j$(JOBS) $(BROWSING) $(OTHERS) types lint)
	$(if $(ARGS),$(PYTEST) $(ARGS),@$(MAKE) --no-print-directory alone)

test-browser: setup-test browser firefox ## run the tests that open a browser
	@$(MAKE) --no-print-directory -k -j2 $(BROWSING)
	@$(MAKE) --no-print-directory alone

test-others: setup-test postgres slurm ## run the tests that open none
	@$(MAKE) --no-print-directory -k -j$(JOBS) $(OTHERS)
	@$(MAKE) --no-print-directory alone

part-%:
	@rm -rf $(FAILED)/$*; log=$$(mktemp); trap 'rm -f $$log' EXIT; \
	$(PYTEST) -o cache_dir=$(FAILED)/$* $(PART_$*) > $$log 2>&1; code=$$?; cat $$log; \
	if [ $$code = 1 ] && [ "$$(grep -c ': true' $(FAILED)/$*/v/cache/lastfailed)" -le 3 ]; then code=0; else rm -rf $(FAILED)/$*; fi; \
	exit $$code

.PHONY: alone
alone:
	@code=0; \
	$(foreach part,$(patsubst part-%,%,$(BROWSING) $(OTHERS)),if [ -e $(FAILED)/$(part) ]; then \
	  cp $(FAILED)/$(part)/v/cache/lastfailed $(FAILED)/$(part).json; \
	  $(PYTEST) -o cache_dir=$(FAILED)/$(part) --last-failed --last-failed-no-failures none $(PART_$(part)) || code=1; \
	fi;) \
	if ls $(FAILED)/*.json >/dev/null 2>&1; then echo "Failed beside others, so that they ran again:"; grep -h ': true' $(FAILED)/*.json; fi; \
	rm -rf $(FAILED); exit $$code

test-gpu: $(READY_TEST) ## run the tests that need a GPU, on a host that has one
	@$(BIN)/python -c 'import sys, torch; torch.cuda.is_available() or sys.exit("No GPU that torch can use: every test would be skipped. Run them on a host with one.")'
	$(BIN)/python -m pytest -m gpu tests/gpu $(ARGS)

explore: setup-test ## run the property tests on examples that no run has drawn before
	$(BIN)/python -m pytest --hypothesis-profile random tests/properties $(ARGS)

setup: $(READY) ## virtual environment, pinned dependencies and torch

setup-test: $(READY_TEST) $(READY_NODE) ## the same, with what the tests need

check: setup-test lint types ## format, lint, types, import contract and declared dependencies

format: setup-test ## put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(PRETTIER) --log-level warn --write $(PRETTY)
	$(NODE) node_modules/eslint/bin/eslint.js --fix static/js tests/browser/firefox.mjs eslint.config.js

lint: setup-test ## format and lint, changing nothing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(PRETTIER) --log-level warn --check $(PRETTY)
	$(NODE) node_modules/eslint/bin/eslint.js static/js tests/browser/firefox.mjs eslint.config.js

types: setup-test ## types, import contract and declared dependencies
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(NODE) node_modules/typescript/bin/tsc -p jsconfig.json
	$(BIN)/deptry --no-ansi app estimator runners
	@# Tests may import all that is declared, and some of it is tools that nothing imports.
	$(BIN)/deptry --no-ansi --ignore DEP002,DEP004 --exclude '^$$' tests benchmarks

# Of one version there may be several builds on PATH: version managers compile without the compiler's profile, which
# distributions use, and are a third slower. Another than the first is taken where it is quicker by a tenth.
define QUICKEST
import os, subprocess, sys
LOOP = "import ensurepip, venv, timeit; print(min(timeit.repeat('for i in range(20000): d[i % 97] = len(str(i))', 'd = {}', number=1, repeat=15)))"
def time_s(path):
    done = subprocess.run([path, "-c", LOOP], capture_output=True, text=True)
    return float("inf") if done.returncode else float(done.stdout) * (0.9 if path == sys.executable else 1)
name = "python%d.%d" % sys.version_info[:2]
others = [os.path.join(folder, name) for folder in os.get_exec_path()]
print(min([sys.executable, *(path for path in others if os.access(path, os.X_OK))], key=time_s))
endef
export QUICKEST

$(BIN)/python:
	@python=; usable=; \
	for candidate in $(if $(PYTHON),$(PYTHON),python3.13 python3.12 python3.11 python3); do \
	  "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	  [ -n "$$python" ] || python="$$candidate"; \
	  "$$candidate" -c 'import ensurepip, venv' 2>/dev/null && { usable="$$candidate"; break; }; \
	done; \
	[ -n "$$python" ] || { echo "No Python 3.11 or newer was found. Install one, or name it: make run PYTHON=/path/to/python3" >&2; exit 1; }; \
	if [ -z "$$usable" ]; then \
	  package="python$$("$$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"; \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && apt-get install -y -qq --no-install-recommends "$$package" || exit 1; \
	  else \
	    echo "$$python cannot make virtual environments. Install its venv package (Debian, Ubuntu: apt-get install $$package)." >&2; exit 1; \
	  fi; \
	fi; \
	$(if $(PYTHON),,[ -z "$$usable" ] || usable="$$("$$usable" -c "$$QUICKEST")" || exit 1;) \
	echo "Virtual environment of $$("$${usable:-$$python}" --version) in $(VENV)"; \
	"$${usable:-$$python}" -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(READY): pyproject.toml requirements.txt | $(BIN)/python
	@rm -f $(VENV)/ready-*
	sed $(if $(filter $(TORCH_PIN) $(TORCH_PIN)+cpu,$(TORCH)),'s/^#+ //','/^# torch/$(comma)/^$$/d') requirements.txt > $(VENV)/constraints.txt
	$(PIP) install -c $(VENV)/constraints.txt '$(TORCH)' setuptools
	$(PIP) install -q -c $(VENV)/constraints.txt --no-build-isolation -e '.$(EXTRAS:%=[%])'
	@touch $@

$(READY_TEST): $(READY)
	$(PIP) install -q -c $(VENV)/constraints.txt --no-build-isolation -e '.[postgres,tables,test]'
	@touch $@

# Node.js comes from a wheel; the tools of package.json run on it
$(READY_NODE): package.json package-lock.json | $(READY_TEST)
	$(BIN)/npm ci
	@touch $@

browser: setup-test ## find Chromium for the browser tests, or install it, preferably without windows
	@find="$(BIN)/python -m tests.chromium"; shell=chromium-headless-shell; \
	if [ -n "$$CHROMIUM" ] || command -v $$shell >/dev/null; then $$find; exit; fi; \
	found=$$($$find 2>/dev/null) || found=; root=; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  root=yes; \
	  [ -n "$$found" ] || apt-get update -qq; \
	  if apt-cache show $$shell >/dev/null 2>&1; then apt-get install -y -qq --no-install-recommends $$shell; \
	  elif [ -z "$$found" ]; then apt-get install -y -qq --no-install-recommends chromium; fi; \
	fi; \
	$$find 2>/dev/null || { $(BIN)/python -m playwright install $${root:+--with-deps} --only-shell chromium; $$find; }

firefox: setup-test ## find Firefox for its test, or install it; without it that test is skipped and says so
	@find="$(BIN)/python -m tests.firefox"; \
	if $$find 2>/dev/null; then exit; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq; apt-get install -y -qq --no-install-recommends firefox-esr || apt-get install -y -qq --no-install-recommends firefox; \
	fi; \
	$$find || echo "The test in Firefox will be skipped."

postgres: ## find a PostgreSQL server for the store's tests, or install it
	@find() { command -v postgres || ls -d /usr/lib/postgresql/*/bin/postgres /usr/pgsql-*/bin/postgres; }; \
	if find >/dev/null 2>&1; then exit; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq; apt-get install -y -qq --no-install-recommends postgresql; \
	fi; \
	find >/dev/null 2>&1 || { echo "The store's tests need the programs of a PostgreSQL server. Install the package (Debian, Ubuntu: postgresql; Fedora: postgresql-server; Homebrew: postgresql) or put postgres on PATH." >&2; exit 1; }

slurm: setup-test ## find Slurm for its tests, or install it; without it those tests are skipped and say so
	@find="$(BIN)/python -m tests.slurm"; \
	if $$find >/dev/null; then exit; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq; \
	  apt-get install -y -qq --no-install-recommends slurm-wlm munge slurmdbd mariadb-server-core mariadb-client-core \
	    || apt-get install -y -qq --no-install-recommends slurm-wlm munge; \
	fi; \
	$$find || echo "The tests of the Slurm backend will be skipped. Install the packages slurm-wlm, munge, slurmdbd, mariadb-server-core and mariadb-client-core (Debian, Ubuntu), or run make slurm as root."

accuracy: setup ## how right predictions are, of every set of measured steps; fails where a figure got worse
	@$(BIN)/python -m benchmarks.accuracy $(TABLES) $(ARGS)

BENCHES := estimate request hierarchy first_bars slider import_kineto trace
bench: setup-test browser ## measure how fast Headroom itself is: those scripts of benchmarks/ that take its time
	@set -e; for name in $(BENCHES); do echo "== $$name"; $(BIN)/python -m "benchmarks.$$name"; done

pictures: setup-test browser ## take the pictures of README.md, from bundled data
	$(BIN)/python docs/pictures.py

docker: ## build the image; CUDA_BASE=IMAGE for one with CUDA, Python and make
	docker build -t headroom $(if $(CUDA_BASE),--build-arg BASE=$(CUDA_BASE) --build-arg RUNTIME=$(CUDA_BASE) --build-arg TORCH=$(TORCH_PIN) --build-arg PIP_EXTRA_INDEX_URL=) $(ARGS) .

clean: ## remove the virtual environment and all caches; data stays
	rm -rf $(VENV) node_modules build headroom.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
