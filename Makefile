# `make help` lists what there is. Everything needs no more than Python 3.11+ and make; see scripts/prepare.py.

PYTHON ?= python3
RUN := .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help setup test test-long unit t test-clients test-spark demo bench profile bench-scrape bench-cluster bench-flow bench-spark crash victim quota paging large console guard dist pages docs docs-serve lint format lock clean

help:  ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1 \t/p' $(MAKEFILE_LIST) | expand -t 10

setup:  ## Make .venv, install everything from the lock, build Penstock
	@$(PYTHON) scripts/prepare.py

test: setup  ## Lint, types, import contracts, then all tests: interpreted, compiled, with Spark
	@$(RUN) scripts/check.py

test-long: setup  ## The same with all random examples, damages and crash rounds (tests/profiles.py)
	@$(RUN) scripts/check.py --long

unit: setup  ## Tests of single modules, interpreted from the sources: under a minute
	@$(RUN) -m pytest -q tests/content tests/flow tests/wire tests/settings tests/core tests/protocols tests/describe tests/ranges tests/management tests/operations tests/driver tests/access tests/persistence

t: setup  ## The tests that ARGS names, interpreted from the sources: make t ARGS="-k cursor"
	@$(RUN) -m pytest $(ARGS)

test-clients: setup  ## Other people's suites and applications, on Penstock and on RabbitMQ where it is installed
	@scripts/suites.sh || true
	@PENSTOCK_FETCH=1 $(RUN) -m tests.support.client_report; found=$$?; $(RUN) -m compat && exit $$found

pages: setup  ## Write what follows from the code: tables and lists of pages, types of keywords
	@$(RUN) scripts/option_types.py
	@$(RUN) scripts/pages.py

docs: setup  ## The documentation as a site in build/site: links, anchors and completeness are checked, nothing is fetched
	@NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --quiet --strict && echo "Open build/site/index.html; the search needs 'make docs-serve'."

docs-serve: setup  ## The same at http://127.0.0.1:8000, built again at each change
	@NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs serve

test-spark: setup  ## What the sources and sinks of Spark can do, with another PySpark: make test-spark VERSION=4.0.5
	@test -d build/pyspark-$(VERSION) || $(RUN) -m pip install --quiet --no-deps --target build/pyspark-$(VERSION) pyspark==$(VERSION)
	@java_home=$$(scripts/jdk.sh) && JAVA_HOME="$$java_home" PYTHONPATH=build/pyspark-$(VERSION):src \
	    SPARK_HOME=build/pyspark-$(VERSION)/pyspark $(RUN) -m pytest tests/spark/test_any_version.py

lint: setup  ## Only lint, types and import contracts
	@$(RUN) scripts/check.py --lint

format: setup  ## Format the sources and mend what ruff can mend
	@$(RUN) -m ruff check --fix-only --quiet .
	@$(RUN) -m ruff format .

demo:  ## 336,776 flights through a queue of 4 MiB into Spark, and a picture of it; nothing is compiled for it
	@$(PYTHON) scripts/prepare.py --demo
	@java_home=$$(scripts/jdk.sh) && JAVA_HOME="$$java_home" $(RUN) -m demo

bench: setup  ## CPU time per message, beside the peers that are installed, and by TLS and into PostgreSQL: make bench ARGS="--record"
	@$(RUN) -m bench.run $(ARGS)

profile: setup  ## Where the broker's time goes under the load of one or two rows of the bench: a flame graph in build/ (perf)
	@$(RUN) -m bench.flame $(ARGS)

bench-scrape: setup  ## Scrapes of 10,000 queues: time, processor time, longest pass of the loop
	@$(RUN) -m bench.scrape $(ARGS)

bench-cluster: setup  ## A node with shards beside a broker alone: processor time, kill -9 of a shard, a crowd that comes back
	@$(RUN) -m bench.cluster $(ARGS)

bench-flow: setup  ## The flow-control scorecard, RabbitMQ beside it where it is installed
	@$(RUN) -m bench.flow $(ARGS)

bench-spark: setup  ## CPU time of Spark's queries on queues, per million rows, beside Parquet's files and pika
	@java_home=$$(scripts/jdk.sh) && JAVA_HOME="$$java_home" $(RUN) -m bench.spark $(ARGS)

crash: setup  ## Kill the broker 500 times under load; nothing that it confirmed may be lost (bench/crash)
	@$(RUN) -m bench.crash $(ARGS)

crash-spark: setup  ## 200 rounds of kill -9 of Spark's processes and of the broker; every row must be delivered once (bench/crash_spark)
	@java_home=$$(scripts/jdk.sh) && JAVA_HOME="$$java_home" $(RUN) -m bench.crash_spark $(ARGS)

quota: setup  ## A store at its disk quota: blocked, drained, resumed, and a picture of it
	@$(RUN) -m bench.quota

paging: setup  ## A queue of 100 times its memory on the disk: memory, depth, rates, and a picture of it
	@$(RUN) -m bench.paging

large: setup  ## A message of 1 GiB from a producer to a slow consumer: the broker's memory, and a picture of it
	@$(RUN) -m bench.memory --large

console: setup  ## What ten consoles cost a broker with 10,000 queues, others, and a browser
	@$(RUN) -m bench.console
	@$(RUN) -m bench.console_motion

victim: setup  ## What one client's work costs the others: a victim's latency beside clients that ask for much
	@$(RUN) -m bench.victim

guard: setup  ## Instructions per message, against the recorded values (valgrind)
	@$(RUN) -m bench.guard

dist:  ## Source package, compiled wheel and pure wheel in dist/, each wheel tried in a new environment: make dist ARGS=--pure
	@$(PYTHON) scripts/dist.py $(ARGS)

lock: setup  ## Write the lock files anew from pyproject.toml
	@scripts/lock.sh

clean:  ## Remove everything that was made
	rm -rf .venv .venv.lock build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis \
	    .import_linter_cache demo/output bench/output bench/build compat/output tests/clients/node/node_modules spark-warehouse
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
