# Both README commands work on a fresh machine with Python 3.11+ and make: each makes .venv first.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: axe demo test fuzz bench bench-timing refusals audit-zeros audit-chain audit-intervals bench-independence bench-answers bench-calibration bench-tree bench-pipeline soak check-real lint types schema commands services lock audit clean

demo: .venv/installed
	$(BIN)/congenial demo

test: .venv/installed
	$(BIN)/python -m pytest -n auto --dist worksteal

# Ratios measured in one run; make bench DATA=folder adds the real counties.
bench: .venv/installed
	$(BIN)/python benchmarks/run.py $(if $(DATA),--data $(DATA))
	$(BIN)/python benchmarks/wide.py

# Crash safety: 200 releases are killed at moments spread over their whole run; 10 of them in the tests.
soak: .venv/installed
	$(BIN)/python benchmarks/soak.py --kills $(or $(KILLS),200)

# Whether a release goes through tells nothing about cells: 1,008 pairs of neighbours near every limit; 192 in the tests.
refusals: .venv/installed
	CONGENIAL_PAIRS=63 $(BIN)/python -m pytest -n auto --dist worksteal tests/test_refusals.py

# Odd and damaged specs and data through the commands: 4,000 of them; 1,000 in the tests.
fuzz: .venv/installed
	CONGENIAL_FUZZ=32 $(BIN)/python -m pytest -n auto --dist worksteal tests/curator/test_fuzz.py

# Certificates of weighted zeros against every pair of 20,000 drawn systems; of 120 in the tests.
audit-zeros: .venv/installed
	$(BIN)/python benchmarks/zeros.py --systems $(or $(SYSTEMS),20000)

# Certificates of trees of areas: 3,000,000 divergences of drawn chains, every outcome listed; 200,000 in the tests.
audit-chain: .venv/installed
	$(BIN)/python benchmarks/chain.py --checks $(or $(CHECKS),3000000)

# Intervals without a prior: exact coverage of every table of 3,000 drawn systems, and widths for P12.
audit-intervals: .venv/installed
	$(BIN)/python benchmarks/prior_free.py --systems $(or $(SYSTEMS),3000)

# Level and power of the independence test through the release's own law: tables of 2 x 4 cells, and P12 tables.
bench-independence: .venv/installed
	$(BIN)/python benchmarks/independence.py --tests $(or $(TESTS),1000) --p12 $(or $(P12),200)

# Coverage and errors of answers on simulated P12 tables, smooth and rough; on twenty real ones: make bench-answers DATA=folder.
bench-answers: .venv/installed
	$(BIN)/python benchmarks/answers.py --tables $(or $(TABLES),100) $(if $(DATA),--data $(DATA))

# Simulation-based calibration of the smooth prior's posterior: ranks of the truth, one table and six areas.
bench-calibration: .venv/installed
	$(BIN)/python benchmarks/calibration.py --tables $(or $(TABLES),400) --areas $(or $(AREAS),60)

# Blocks of two states, and their trees repeated to 8.2 million: make bench-tree DATA=folder.
bench-tree: .venv/installed
	$(BIN)/python benchmarks/tree.py --data $(or $(DATA),$(error say where the data are: make bench-tree DATA=folder))

# From a file of counts to a verified bundle: CPU seconds and memory of release and verify, by areas.
bench-pipeline: .venv/installed
	$(BIN)/python benchmarks/pipeline.py --areas $(or $(AREAS),10 1000 10000)

# Can a clock tell two tables apart?
bench-timing: .venv/installed
	$(BIN)/python benchmarks/timing.py $(if $(DRAWS),--draws $(DRAWS))

# Real tables: make check-real DATA=folder.
check-real: .venv/installed
	$(BIN)/python benchmarks/check_real.py --data $(or $(DATA),$(error say where the data are: make check-real DATA=folder))

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed
	$(BIN)/mypy

# The JSON Schema of spec files, for editors; a test says when it is not current.
schema: .venv/installed
	$(BIN)/python -c "from congenial.spec.json_schema import json_schema_text as text; print(text(), end='')" > docs/spec.schema.json

# The help of every command; a test says when it is not current.
commands: .venv/installed
	$(BIN)/python -c "from congenial.cli.reference import reference; print(reference(), end='')" > docs/commands.md

# What the tests need beyond pip: Chromium, which draws pages, R, which runs docs/r.md, and npm, which fetches axe-core. On Debian and its kin they
# are installed from the distribution's packages when they are not there; elsewhere, install them, or see tests skipped.
services:
	@missing=""; \
	command -v chromium || command -v chromium-browser || command -v google-chrome || missing="$$missing chromium"; \
	command -v Rscript || missing="$$missing r-base-core"; \
	command -v npm || missing="$$missing npm"; \
	if [ -z "$$missing" ]; then \
	  echo "services: Chromium, R and npm are there"; \
	else \
	  echo "services: installing$$missing with apt-get, for the tests of pages and of docs/r.md"; \
	  apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $$missing; \
	fi

# The accessibility checker that the tests of the workbench run in its pages, from npm; needs Node.js.
AXE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/congenial-axe
axe:
	@if [ -f "$(AXE)/node_modules/axe-core/axe.min.js" ]; then echo "axe: it is there"; \
	elif command -v npm >/dev/null; then npm install --silent --no-audit --no-fund --prefix "$(AXE)" axe-core@4.10.3; \
	else echo "axe: npm is not installed, so the tests of accessibility are skipped"; fi

# Every package at a fixed version and hash; the project itself from this folder, built without the network.
.venv/installed: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "congenial needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; try: make PYTHON=python3.11 " + "$(MAKECMDGOALS)")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# Renew requirements.lock after a change of the dependencies in pyproject.toml.
lock: .venv/installed
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --upgrade --extra dev --extra arviz --extra opendp --extra postgresql --extra workbench -o requirements.lock pyproject.toml

# Known vulnerabilities of every pinned package, from a public database. make says Error 1 when there are some, and Error 3
# when nothing was checked, because the database cannot be reached from here.
audit:
	$(PYTHON) benchmarks/audit.py requirements.lock

clean:
	rm -rf .venv dist build
	find src -name "*.nb[ci]" -delete
