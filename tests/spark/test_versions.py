"""Older versions of PySpark are refused in one sentence; tests of this file pretend to run them."""

import subprocess
import sys

import pytest

from pyspark_amqp.source import AmqpDataSource
from pyspark_penstock import versions
from pyspark_penstock.errors import SparkSourceError
from pyspark_penstock.source import PenstockDataSource

OPTIONS = {"subscribe": "orders", "cursor": "app"}


def test_source_without_admission_control_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.datasource", None)
    monkeypatch.setattr(versions.pyspark, "__version__", "4.1.4")
    with pytest.raises(SparkSourceError, match=r"PySpark 4\.1\.4 does not say .* needs PySpark 4\.2 or later"):
        PenstockDataSource(OPTIONS).streamReader(None)


def test_source_amqp_without_admission_control_is_refused_too(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.datasource", None)
    with pytest.raises(SparkSourceError, match=r"the amqp source needs PySpark 4\.2 or later"):
        AmqpDataSource({"subscribe": "orders", "spool": "/data/spool"}).streamReader(None)


def test_sink_without_batches_of_a_stream_is_refused(monkeypatch):
    monkeypatch.setattr(versions, "DataSourceStreamArrowWriter", versions.DataSourceArrowWriter)
    monkeypatch.setattr(versions.pyspark, "__version__", "4.0.5")
    with pytest.raises(SparkSourceError, match=r"PySpark 4\.0\.5 gives .* needs PySpark 4\.1 or later"):
        PenstockDataSource({"queue": "orders"}).streamWriter(None, False)


def test_pyspark_without_data_sources_is_refused_at_the_first_use():
    code = (
        "import sys; sys.modules['pyspark.sql.datasource'] = None; import pyspark_penstock; "
        "pyspark_penstock.DefaultSource"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert "ImportError: this PySpark has no data sources in Python" in done.stderr


def test_batch_read_needs_no_filters_of_pyspark():
    """PySpark 4.0 has neither filters nor a method for them."""
    code = (
        "from pyspark.sql import datasource\n"
        "for name in [name for name, each in vars(datasource).items() if getattr(each, '__base__', None)"
        " is getattr(datasource, 'Filter', 0)] + ['Filter']: delattr(datasource, name)\n"
        "del datasource.DataSourceReader.pushFilters\n"
        "import pyspark_penstock.batch, pyspark_penstock.batch_options as options\n"
        "pyspark_penstock.batch.PenstockBatchReader(options.batch_options({'subscribe': 'orders'})).pushFilters\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_data_sources_are_found_by_an_older_pyspark():
    code = (
        "import pyspark.sql.datasource, sys; sys.modules['pyspark.sql.streaming.datasource'] = None\n"
        "import pyspark_penstock, pyspark_amqp\n"
        "print(pyspark_penstock.DefaultSource.name(), pyspark_amqp.DefaultSource.name())\n"
        "import pyspark_penstock.batch, pyspark_penstock.writer  # What it can do."
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "penstock amqp\n"
