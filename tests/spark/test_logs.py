"""The logger of the data source in a process without a logging configuration, as Spark's Python workers are."""

import subprocess
import sys

WARN = "from pyspark_penstock.logs import LOG; LOG.warning('penstock: %s waits', 'queue'); LOG.info('too much')"


def said_by(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout == ""
    return done.stderr


def test_warning_is_on_stderr_without_a_logging_configuration():
    assert said_by(WARN) == "penstock: queue waits\n"


def test_log_follows_the_configuration_of_its_name():
    configured = "import logging; logging.basicConfig(format='%(levelname)s %(name)s %(message)s', level='INFO'); "
    assert said_by(configured + WARN).splitlines() == [
        "WARNING pyspark_penstock penstock: queue waits",
        "INFO pyspark_penstock too much",
    ]
