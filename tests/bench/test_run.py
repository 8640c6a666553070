"""The comparison: its options, and whose processor time it measures."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

import penstock
from bench import loadgen, postgres, run
from bench.brokers import COMPILED, INTERPRETED
from bench.loadgen import POSTGRESQL
from bench.scenarios import STORES
from tests.support.postgres import needs_postgres


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--protocol", "amqp1", "--only", "topic"], "no scenario of amqp1: topic"),
        (["--repeat", "0"], "--repeat 0: at least 1 is wanted"),
        (["--record", "--only", "kib"], "--record keeps all scenarios of a protocol: leave out --only"),
        (["--output", str(Path(__file__).parent)], "this is a directory"),
    ],
)
def test_bad_option_is_refused_in_one_sentence(
    words: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run.arguments(words)
    assert reason in capsys.readouterr().err


@needs_postgres
def test_processor_time_of_a_database_server_is_measured_beside_the_brokers(tmp_path: Path) -> None:
    try:
        loadgen.build()
    except loadgen.LoadError as reason:
        pytest.skip(str(reason))
    with ExitStack() as stack:
        below = postgres.memory() or Path(tempfile.gettempdir())
        starters = postgres.starters(below, stack)
        broker = starters[COMPILED](COMPILED if penstock.compiled() else INTERPRETED, tmp_path)
        stack.callback(broker.stop)
        found = run.measure(broker, STORES[0], 0, run.Effort(1, 0.1, 0.4), POSTGRESQL)
        assert "PostgreSQL" in broker.title
        assert broker.server()
    assert found.server is not None
    assert found.confirm_p99 is not None


def test_comparison_of_one_protocol_has_all_its_scenarios() -> None:
    assert run.arguments(["--protocol", "amqps", "--record"]).only == ["kib"]
