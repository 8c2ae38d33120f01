# Every target also works from another folder: make -C FOLDER TARGET.
.DEFAULT_GOAL := help

ROOT := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))
IN_ROOT := cd "$(ROOT)" &&
STAMP := $(ROOT)/.venv/.installed
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; \
	done)
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
# uv installs in a tenth of pip's time.
INSTALL := $(if $(shell command -v uv 2>/dev/null),uv pip install --quiet --python .venv/bin/python,.venv/bin/python $(PIP_INSTALL))
# The project is built in .venv itself, so that constraints.txt pins the compiler, too.
BUILD_REQUIRES := import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")
PYTEST := -m pytest -n 2
TESTS_OF_LOOPS := $(addprefix tests/,mechanisms/test_dynamic_drf.py mechanisms/test_whole_tasks.py \
	mechanisms/test_queue_trees.py solvers/test_water_filling.py simulation/metrics/test_over_time.py \
	certificates/test_dynamic_mutations.py certificates/test_whole_task_mutations.py)
# Tests start hundreds of processes; each would compile all of the source again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup built wheels demo test test-plain test-compiled test-cache test-deep test-wheel test-traces test-ray test-page test-portable test-slurm test-newest test-oldest soak traces-named tried lock check site bench peers clean

help:  ## Show the targets.
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1  \2/p' "$(ROOT)/Makefile"

setup: built  ## Create .venv with the compiled project and its tools, in the versions of constraints.txt.
	@$(IN_ROOT) echo "Ready: . .venv/bin/activate, then fairlead --help; this is $$(.venv/bin/fairlead --version)"

$(STAMP): $(ROOT)/pyproject.toml $(ROOT)/papers/pyproject.toml $(ROOT)/constraints.txt $(ROOT)/setup.py $(ROOT)/package-lock.json
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or later on PATH; name one: make PYTHON=..." >&2; exit 1; }
	$(IN_ROOT) { .venv/bin/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv; }
	$(IN_ROOT) .venv/bin/python -c '$(BUILD_REQUIRES)' | $(INSTALL) -c constraints.txt -r /dev/stdin
	$(IN_ROOT) FAIRLEAD_PLAIN=1 $(INSTALL) -c constraints.txt --no-build-isolation -e ".[dev]" -e papers
	@touch "$@"

# Whether to compile is decided by the contents of files, as git changes their times. Without a C
# compiler, this target prints each time that the scheduler is not compiled.
built: $(STAMP)  ## Compile the scheduler again if its sources have changed.
	@$(IN_ROOT) .venv/bin/python page_libraries.py
	@$(IN_ROOT) .venv/bin/python -m fairlead.compiled || { echo "Compiling the scheduler: two or three minutes"; \
		.venv/bin/python -W ignore setup.py --quiet build_ext --inplace; }

wheels: $(STAMP)  ## Build a wheel for this machine and a source distribution, in dist/.
	$(IN_ROOT) rm -rf build dist
	$(IN_ROOT) .venv/bin/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@$(IN_ROOT) .venv/bin/python -W ignore setup.py --quiet sdist
	@$(IN_ROOT) ls dist

demo: built  ## Divide Google's 12,583 servers by every mechanism, and write demo/report.html.
	@mkdir -p "$(ROOT)/demo"
	@echo "Sixteen teams share 12,583 servers, by every mechanism:"
	@$(IN_ROOT) .venv/bin/fairlead compare examples/google-park.yaml --report demo/report.html
	@echo
	@echo "The same with placement constraints and finite tasks:"
	@$(IN_ROOT) .venv/bin/fairlead compare examples/google-park-constrained.yaml --report demo/constrained.html
	@echo
	@echo "Each user's tasks and servers, to read in a browser:"
	@$(IN_ROOT) printf '  %s\n' "$$(pwd)/demo/report.html" "$$(pwd)/demo/constrained.html"

test: test-plain test-compiled  ## Run the tests, and those of compiled modules a second time in plain Python.

test-compiled: built
	$(IN_ROOT) .venv/bin/python -m pytest -n 4 --dist worksteal tests papers/tests --ignore=tests/packaging  # 4, as tests of the service mostly wait

test-plain: $(STAMP)  ## Run the tests of the compiled modules in plain Python.
	$(IN_ROOT) FAIRLEAD_PLAIN=1 .venv/bin/python $(PYTEST) tests/scheduler $(TESTS_OF_LOOPS)

test-cache: $(STAMP)  # Compile the tests once, before several processes of pytest import them.
	$(IN_ROOT) FAIRLEAD_PLAIN=1 .venv/bin/python -m pytest -n 0 --collect-only -qq tests papers/tests --ignore=tests/packaging >/dev/null

test-deep: export EFFORT := 10
test-deep: built  ## Run the tests with ten times as many random cases.
	$(IN_ROOT) .venv/bin/python $(PYTEST) --timeout 6000 tests papers/tests --ignore=tests/packaging

test-wheel: built  ## Build wheels with and without a C compiler, and test the installed packages.
	$(IN_ROOT) .venv/bin/python $(PYTEST) tests/packaging

soak: built  ## Run the tests of the service that take several minutes.
	$(IN_ROOT) .venv/bin/python -m pytest tests/service -m soak -s

test-traces: traces-named built  ## Run the tests of log readers on real logs: make test-traces TRACES=FOLDER.
	TRACES="$$(realpath "$(TRACES)")" && $(IN_ROOT) .venv/bin/python $(PYTEST) tests --traces "$$TRACES"

test-ray: built  ## Run the tests that start a Ray cluster on this machine.
	$(IN_ROOT) .venv/bin/python -m pytest -o addopts=-q tests/ray_cluster

test-page: built  ## Run the tests of the live page in Chromium (Debian: apt install chromium).
	$(IN_ROOT) .venv/bin/python -m pytest -o addopts=-q tests/browser

test-portable: built  ## Run the tests of the library, the simulator and the clients as on a system other than Linux.
	$(IN_ROOT) PYTHONPATH="$$PWD/tests/without_linux" .venv/bin/python $(PYTEST) -p no:cacheprovider tests papers/tests \
		--ignore=tests/packaging --ignore=tests/service --ignore=tests/docs/test_peers_table.py \
		-k "not imports_no and not import_neither and not modules_are_imported \
		and not faults_of_a_process and not killed_process and not an_interruption_"  # they need forks

test-slurm: built  ## Run the tests with a real Slurm on this machine, as root (Debian: apt install slurmctld slurmd slurmdbd mariadb-server munge).
	$(IN_ROOT) .venv/bin/python -m pytest -o addopts=-q tests/slurm

traces-named:
	@test -d "$(TRACES)" || { echo "name the folder of the logs: make test-traces TRACES=FOLDER (docs/traces.md)" >&2; exit 1; }

test-newest: TRIED = newest
test-newest: CONSTRAINTS = true
test-newest: tried  ## Run the tests with the newest packages.

test-oldest: TRIED = oldest
test-oldest: CONSTRAINTS = $(PYTHON) -c 'import tomllib; print(*(d.replace(">=", "==") \
	for d in tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"]), sep="\n")'
test-oldest: tried  ## Run the tests with the oldest packages that pyproject.toml admits.

tried:
	$(IN_ROOT) $(PYTHON) -m venv --clear .venv-$(TRIED) && $(CONSTRAINTS) > .venv-$(TRIED)/constraints.txt
	$(IN_ROOT) .venv-$(TRIED)/bin/python $(PIP_INSTALL) -c .venv-$(TRIED)/constraints.txt -e ".[dev]" -e papers
	$(IN_ROOT) .venv-$(TRIED)/bin/python $(PYTEST) tests papers/tests

lock: test-newest  ## Write the newest packages into constraints.txt, if they pass the tests.
	$(IN_ROOT) .venv-newest/bin/python -m pip freeze --exclude-editable > constraints.txt

check: $(STAMP)  ## Check style, format, types and imports between packages.
	$(IN_ROOT) .venv/bin/ruff check .
	$(IN_ROOT) .venv/bin/ruff format --check .
	$(IN_ROOT) .venv/bin/mypy
	$(IN_ROOT) .venv/bin/lint-imports

site: built  ## Build the documentation as pages that need no network: build/site/index.html.
	$(IN_ROOT) NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --strict --quiet -f site/mkdocs.yml

bench: built  ## Run the benchmarks.
	$(IN_ROOT) .venv/bin/python -m pytest benchmarks

peers: built  ## Compare the speed of commands and workers with Slurm and HyperQueue, if these are installed.
	$(IN_ROOT) .venv/bin/python benchmarks/peers.py

clean:  ## Remove the environments and all build results.
	$(IN_ROOT) rm -rf .venv .venv-newest .venv-oldest demo build dist src/*.egg-info papers/src/*.egg-info .hypothesis
	$(IN_ROOT) rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	$(IN_ROOT) find src -name '*.so' -delete -o -name '*.checksum' -delete
	$(IN_ROOT) find src papers tests -name __pycache__ -type d -prune -exec rm -rf {} +
