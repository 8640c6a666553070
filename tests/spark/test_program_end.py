"""Warning at the end of a program that leaves a query behind; no JVM is needed for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[2] / "src"
PROGRAM = """
import sys, types
import pyspark_penstock, pyspark_amqp
from pyspark.sql import SparkSession

class Streams:
    @property
    def active(self):
        {body}

def query(name):
    return types.SimpleNamespace(name=name, id="336bdfd9")

context = types.SimpleNamespace(_jsc={jsc})
SparkSession._instantiatedSession = types.SimpleNamespace(_sc=context, streams=Streams())
{end}
"""


def ended(body: str, end: str = "", jsc: str = "1") -> subprocess.CompletedProcess[str]:
    """Run a program with a session that has such queries, and that ends so."""
    code = PROGRAM.format(body=body, end=end, jsc=jsc)
    words = [sys.executable, "-c", code]
    return subprocess.run(
        words, env={"PYTHONPATH": str(SOURCES), "PATH": "/usr/bin"}, capture_output=True, text=True, check=False
    )


def test_running_query_is_named_once_when_the_program_ends() -> None:
    done = ended("return [query('billing'), query(None)]")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == (
        "penstock: the program ends, and Spark ends the running queries billing, 336bdfd9 with the program; to wait "
        "for a query, call its awaitTermination()\n"
    )


def test_names_of_many_running_queries_are_counted() -> None:
    done = ended("return [query(str(number)) for number in range(5)]")
    assert "the running queries 0, 1, 2 and 2 more with" in done.stderr
    assert "the running query 0 with" in ended("return [query('0')]").stderr


@pytest.mark.parametrize(
    ("body", "end", "jsc"),
    [
        ("return []", "", "1"),
        ("raise ConnectionRefusedError", "", "1"),
        ("return [query('billing')]", "", "None"),
        ("return [query('billing')]", "sys.ps1 = '>>> '", "1"),
        ("return [query('billing')]", "SparkSession._instantiatedSession = None", "1"),
    ],
    ids=["no query", "no JVM", "stopped session", "interpreter", "no session"],
)
def test_end_without_a_lost_query_is_silent(body: str, end: str, jsc: str) -> None:
    done = ended(body, end, jsc)
    assert (done.returncode, done.stderr) == (0, "")


def test_exception_is_the_last_that_a_program_reports() -> None:
    done = ended("return [query('billing')]", "raise SystemError('full')")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "SystemError: full"
