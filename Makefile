# Both README commands work on a fresh machine with Python 3.11+ and make: each makes .venv first.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: axe demo test test-slow wheel fuzz bench bench-timing refusals audit-zeros audit-chain audit-measured audit-tables audit-drawn audit-intervals bench-independence bench-answers bench-calibration bench-tree bench-tree-pipeline bench-pipeline bench-start soak check-real lint types schema commands docs services spark spark-soak lock audit clean

demo: .venv/release
	$(BIN)/congenial demo

test: .venv/installed
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

# The dearest tests, which take most of the time of all: long statistics and audits, Spark, crashes, the largest bundles.
test-slow: .venv/installed
	$(BIN)/python -m pytest -n auto --dist worksteal -m slow

# The wheel in empty environments, without and with extras, on the oldest and the newest Python here; PYTHONS="python3.11" names others,
# NEWEST=1 takes the newest packages in place of those of the lock file.
wheel: .venv/installed
	$(BIN)/python benchmarks/wheel.py $(if $(PYTHONS),--python $(PYTHONS)) $(if $(NEWEST),--newest)

# Ratios measured in one run, and areas a second of the whole pipeline; make bench DATA=folder adds the real counties. Measured areas have
# 900 people each, even and uneven, and 1, 5, 20 and 200 people a cell; conditional ones 38, and 1 and 20 a cell.
bench: .venv/installed
	$(BIN)/python benchmarks/run.py $(if $(DATA),--data $(DATA))
	$(BIN)/python benchmarks/wide.py
	$(BIN)/python benchmarks/measured.py $(if $(DATA),--data $(DATA))
	$(BIN)/python benchmarks/anchored.py $(if $(DATA),--data $(DATA))
	$(BIN)/python benchmarks/pipeline.py --areas $(or $(AREAS),1000 10000 100000) --method conditional
	$(BIN)/python benchmarks/pipeline.py --areas $(or $(AREAS),1000 10000 100000) --method measured --rough
	$(BIN)/python benchmarks/pipeline.py --areas $(or $(AREAS_BY_SIZE),30000) --method measured --people 1 5 20 200 --repeat 3
	$(BIN)/python benchmarks/pipeline.py --areas 3000 --method conditional --people 1 20

# Crash safety: 200 releases are killed at moments spread over their whole run; 7 of them in the tests.
soak: .venv/installed
	$(BIN)/python benchmarks/soak.py --kills $(or $(KILLS),200)

# Whether a release goes through tells nothing about cells: 1,008 pairs of neighbours near every limit by either method; 64 in the tests.
refusals: .venv/installed
	CONGENIAL_PAIRS=63 $(BIN)/python -m pytest -n auto --dist worksteal tests/test_refusals.py

# Odd and damaged specs and data through the commands: 4,000 of them; 250 in the tests.
fuzz: .venv/installed
	CONGENIAL_FUZZ=32 $(BIN)/python -m pytest -n auto --dist worksteal tests/curator/test_fuzz.py

# Random systems, problems and edits of the tests, ten times as many as in each run of them.
audit-drawn: .venv/installed
	CONGENIAL_DRAWN=$(or $(TIMES),10) $(BIN)/python -m pytest -n auto --dist worksteal $$(grep -rl "^from drawn import" tests)

# Certificates of weighted zeros against every pair of 20,000 drawn systems; of 120 in the tests.
audit-zeros: .venv/installed
	$(BIN)/python benchmarks/zeros.py --systems $(or $(SYSTEMS),20000)

# Certificates of trees of areas: 3,000,000 divergences of drawn chains, every outcome listed; 200,000 in the tests.
audit-chain: .venv/installed
	$(BIN)/python benchmarks/chain.py --checks $(or $(CHECKS),3000000)

# Measured releases: losses and Renyi divergences of 5,000 drawn systems by enumeration of lattices; of 200 in the tests.
audit-measured: .venv/installed
	$(BIN)/python benchmarks/measured_audit.py --systems $(or $(SYSTEMS),5000)

# Certificates of several tables of the same records against every pair of histograms of few records.
audit-tables: .venv/installed
	$(BIN)/python benchmarks/tables_audit.py --systems $(or $(SYSTEMS),1000)

# Intervals without a prior: exact coverage of every table of 3,000 drawn systems, and widths for P12.
audit-intervals: .venv/installed
	$(BIN)/python benchmarks/prior_free.py --systems $(or $(SYSTEMS),3000)

# Level and power of the independence test through the release's own law: tables of 2 x 4 cells, and P12 tables.
bench-independence: .venv/installed
	$(BIN)/python benchmarks/independence.py --tests $(or $(TESTS),1000) --p12 $(or $(P12),200)

# Coverage and errors of answers on simulated tables: smooth, rough, sparse, associated; on twenty real ones: make bench-answers DATA=folder.
bench-answers: .venv/installed
	$(BIN)/python benchmarks/answers.py --tables $(or $(TABLES),100) $(if $(DATA),--data $(DATA))

# Simulation-based calibration of the smooth prior's posterior: ranks of the truth, one table and six areas.
bench-calibration: .venv/installed
	$(BIN)/python benchmarks/calibration.py --tables $(or $(TABLES),400) --areas $(or $(AREAS),60)

# Blocks of two states, and their trees repeated to 8.2 million: make bench-tree DATA=folder.
bench-tree: .venv/installed
	$(BIN)/python benchmarks/tree.py --data $(or $(DATA),$(error say where the data are: make bench-tree DATA=folder))

# A tree from Parquet files to a verified bundle: seconds and memory of each command. COPIES="1 8 164": 164 of two states are
# 8.2 million blocks. DATA=folder takes real blocks; without it blocks of about their shape are simulated.
bench-tree-pipeline: .venv/installed
	$(BIN)/python benchmarks/tree_pipeline.py $(if $(DATA),--data $(DATA)) --copies $(or $(COPIES),1 8 32) --method conditional
	$(BIN)/python benchmarks/tree_pipeline.py $(if $(DATA),--data $(DATA)) --copies $(or $(COPIES),1 8 32) --method measured
	$(BIN)/python benchmarks/tree_pipeline.py $(if $(DATA),--data $(DATA)) --copies $(or $(COPIES),1 8 32) --method measured --exact block

# From a file of counts to a verified bundle: seconds and memory of release and verify, by areas; a million takes minutes.
bench-pipeline: .venv/installed
	$(BIN)/python benchmarks/pipeline.py --areas $(or $(AREAS),1000 10000 100000 1000000) $(if $(METHOD),--method $(METHOD))

# First and later runs: CPU seconds of an import, of draws and of a release, with and without kept kernels.
bench-start: .venv/installed
	$(BIN)/python benchmarks/start_up.py --repeat $(or $(REPEAT),3)

# Can a clock tell two tables apart, or, of a measured release, how large its noise is? INTERPRETED=1: where Python runs the kernels, as for the first tables of a process.
bench-timing: .venv/installed
	$(BIN)/python benchmarks/timing.py $(if $(DRAWS),--draws $(DRAWS)) $(if $(INTERPRETED),--interpreted)
	$(BIN)/python benchmarks/measured_timing.py $(if $(DRAWS),--draws $(DRAWS))

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
	$(BIN)/python -c "from congenial.spec.file_format import json_schema_text as text; print(text(), end='')" > docs/spec.schema.json

# The help of every command; a test says when it is not current.
commands: .venv/installed
	$(BIN)/python -c "from congenial.cli.main import reference; print(reference(), end='')" > docs/commands.md

# The documentation site, in build/site; it opens from there without a server, and asks the network for nothing. Every link
# and anchor is checked. Node typesets the mathematics while the site is built.
docs: .venv/docs website/node_modules/installed
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=website $(BIN)/mkdocs build --strict --quiet
	$(BIN)/python website/site_check.py build/site README.md

.venv/docs: requirements-docs.lock .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-docs.lock
	@touch $@

website/node_modules/installed: website/package-lock.json
	@command -v npm > /dev/null || { echo "make docs needs Node with npm, to typeset mathematics: make services installs it"; exit 1; }
	cd website && npm ci --silent --ignore-scripts --no-audit --no-fund
	@touch $@

# What tests and site need beyond pip: Chromium, which draws report.html, R, which runs docs/r.md, npm, which installs what
# typesets the site's mathematics and axe-core, and Java, which Spark runs on. On Debian and its kin they are installed from the distribution's packages when they are not there; elsewhere, install them, or see tests skipped.
services:
	@missing=""; \
	command -v chromium || command -v chromium-browser || command -v google-chrome || missing="$$missing chromium"; \
	command -v Rscript || missing="$$missing r-base-core"; \
	command -v npm || missing="$$missing npm"; \
	command -v java || missing="$$missing openjdk-17-jre-headless"; \
	if [ -z "$$missing" ]; then \
	  echo "services: Chromium, R, npm and Java are there"; \
	else \
	  echo "services: installing$$missing with apt-get, for the tests of report.html, of docs/r.md and of Spark, and for the site"; \
	  apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $$missing; \
	fi

# The accessibility checker that the tests of the workbench run in its pages, from npm; needs Node.js.
AXE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/congenial-axe
axe:
	@if [ -f "$(AXE)/node_modules/axe-core/axe.min.js" ]; then echo "axe: it is there"; \
	elif command -v npm >/dev/null; then npm install --silent --no-audit --no-fund --prefix "$(AXE)" axe-core@4.10.3; \
	else echo "axe: npm is not installed, so the tests of accessibility are skipped"; fi

# What a release needs, every package at a fixed version and hash; the project itself from this folder, built without the network.
.venv/release: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "congenial needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; try: make PYTHON=python3.11 " + "$(MAKECMDGOALS)")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# The extras, the tests' tools and linters besides.
.venv/installed: .venv/release requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

# The extra `spark`, 456 MB: not part of the other environment, so that tests do not wait for it. It needs Java 17.
spark: .venv/spark-installed
.venv/spark-installed: .venv/installed requirements-spark.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements-spark.lock
	@touch $@

# Kill releases on a cluster of Spark at 20 moments, and go on with them: one bundle, one charge.
spark-soak: spark
	$(BIN)/python benchmarks/spark_soak.py --kills $(or $(KILLS),20)

COMPILE := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --upgrade
# Renew the lock files after a change of the dependencies in pyproject.toml.
lock: .venv/installed
	$(COMPILE) --extra dev --extra build --extra analysis --extra study --extra opendp --extra postgresql --extra workbench -o requirements-dev.lock pyproject.toml
	$(COMPILE) --extra build -c requirements-dev.lock -o requirements.lock pyproject.toml
	$(COMPILE) --extra spark -c requirements-dev.lock -o requirements-spark.lock pyproject.toml
	$(BIN)/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['docs'], sep='\\n')" | $(COMPILE) --no-annotate -c requirements-dev.lock -o requirements-docs.lock -

# Known vulnerabilities of every pinned package, from a public database. make says Error 1 when there are some, and Error 3
# when nothing was checked, because the database cannot be reached from here.
audit:
	$(PYTHON) benchmarks/audit.py requirements.lock
	$(PYTHON) benchmarks/audit.py requirements-dev.lock
	$(PYTHON) benchmarks/audit.py requirements-spark.lock
	$(PYTHON) benchmarks/audit.py requirements-docs.lock

clean:
	rm -rf .venv dist build website/node_modules
	find src -name "*.nb[ci]" -delete
