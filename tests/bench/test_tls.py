"""The measurement of TLS: its relay passes what the load generator sends, and the broker's time is counted."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

import penstock
from bench import brokers, loadgen, tls

SHORT = ("--sizes", "1024", "--warm-up", "0.1", "--seconds", "0.3")


def test_load_passes_by_tls_and_costs_something(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    try:
        loadgen.build()
        program = tls.build_relay(tmp_path)
    except loadgen.LoadError as reason:
        pytest.skip(str(reason))
    tls.certificates(tmp_path)
    form = brokers.COMPILED if penstock.compiled() else brokers.INTERPRETED
    with ExitStack() as stack:
        broker = tls.start_penstock(form, tmp_path, program, stack)
        assert tls.microseconds(broker, broker.relay, SHORT) >= 0
        assert tls.microseconds(broker, broker.port, SHORT) >= 0
