"""The measurement of TLS: its relay passes what the load generator sends, and the broker's time is counted."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

import penstock
from bench import brokers, loadgen, tls

SHORT = ("--sizes", "1024", "--ack", "100", "--warm-up", "0.1", "--seconds", "0.3")


def test_load_passes_by_tls_and_costs_something(tmp_path: Path) -> None:
    try:
        loadgen.build()
    except loadgen.LoadError as reason:
        pytest.skip(str(reason))
    form = brokers.COMPILED if penstock.compiled() else brokers.INTERPRETED
    with ExitStack() as stack:
        try:
            starters = tls.starters(tmp_path, stack)
        except loadgen.LoadError as reason:
            pytest.skip(str(reason))
        broker = starters[form](form, tmp_path)
        result = loadgen.run(broker.port, *SHORT, pids=broker.pids())
        assert result["published"] == result["consumed"] > 0
        assert result["broker_cpu"] >= 0
