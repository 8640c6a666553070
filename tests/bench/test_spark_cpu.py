"""Processor time of the measurements with Spark: by process, and as differences for a million rows."""

from __future__ import annotations

import os
import subprocess
import sys

from bench.spark.cpu import Cpu, so_far
from bench.spark.reading import BATCH, FILE_ROWS, message


def test_cost_of_a_million_rows_is_that_of_the_longer_run_less_the_shorter() -> None:
    cost = (Cpu(3.0, 2.0, 1.0) - Cpu(1.0, 1.0, 0.5)).per_million(500_000)
    assert cost == Cpu(4.0, 2.0, 1.0)
    assert cost.whole == 7.0


def test_children_count_while_they_run_and_after_their_end() -> None:
    before = so_far(os.getpid(), None)
    subprocess.run([sys.executable, "-c", "for number in range(3_000_000): pass"], check=True)
    after = so_far(os.getpid(), None)
    assert after.python > before.python
    assert after.jvm >= before.jvm
    assert after.broker == 0.0


def test_process_that_is_gone_costs_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert so_far(process.pid, process.pid) == Cpu(0.0, 0.0, 0.0)


def test_bodies_do_not_compress_and_files_divide_a_batch() -> None:
    assert message(100, 1)[1] != message(100, 1)[1]
    assert message(100, 7, with_id=True)[0].message_id == "order-00000007"
    assert BATCH % FILE_ROWS == 0
