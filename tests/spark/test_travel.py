"""Objects that travel to executors: unchanged, and another version of the package is reported."""

import pickle
import subprocess
import sys

import pytest

from penstock.version import VERSION
from pyspark_amqp.options import amqp_options
from pyspark_amqp.reader import AmqpStreamReader
from pyspark_penstock.batch import PenstockBatchReader
from pyspark_penstock.batch_options import batch_options
from pyspark_penstock.narrowing import Narrowing
from pyspark_penstock.options import sink_options, source_options
from pyspark_penstock.reader import PenstockStreamReader
from pyspark_penstock.writer import PenstockBatchWriter, PenstockStreamWriter

TRAVELLERS = {
    "stream reader": PenstockStreamReader(source_options({"subscribe": "orders", "cursor": "app"})),
    "batch reader": PenstockBatchReader(batch_options({"subscribe": "orders"}), Narrowing(after=7)),
    "stream writer": PenstockStreamWriter(sink_options({"queue": "bills"})),
    "batch writer": PenstockBatchWriter(sink_options({"queue": "bills"})),
    "amqp reader": AmqpStreamReader(amqp_options({"subscribe": "orders", "spool": "/data/spool"})),
}

EXECUTOR = """
import pickle, sys
import penstock.version
penstock.version.VERSION = sys.argv[1]
pickle.loads(sys.stdin.buffer.read())
print("it runs")
"""
"""Program of a worker in which another version is installed."""


def executor(version: str, data: bytes) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", EXECUTOR, version]
    return subprocess.run(command, input=data, capture_output=True, timeout=300, check=False)


@pytest.mark.parametrize("name", TRAVELLERS)
def test_object_arrives_unchanged(name):
    sent = TRAVELLERS[name]
    arrived = pickle.loads(pickle.dumps(sent))
    assert type(arrived) is type(sent)
    for attribute in ("_options", "_write", "_narrowing"):
        assert getattr(arrived, attribute, None) == getattr(sent, attribute, None)


@pytest.mark.parametrize("name", TRAVELLERS)
def test_executor_of_another_version_names_both_versions_in_one_sentence(name):
    done = executor("99.1", pickle.dumps(TRAVELLERS[name]))
    assert done.returncode != 0
    first = next(line for line in done.stderr.decode().splitlines() if "Error" in line)
    assert first.startswith("pyspark_penstock.errors.SparkSourceError: the executor ")
    assert "runs Penstock 99.1 (" in first
    assert first.endswith(
        f"and the driver {VERSION}: install the same version of penstock[spark] on the driver and on all executors"
    )


def test_executor_of_the_same_version_opens_the_object():
    done = executor(VERSION, pickle.dumps(TRAVELLERS["stream writer"]))
    assert done.stdout == b"it runs\n", done.stderr
