"""A hold of all client libraries: their errors, and the fate of their messages."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from penstock.client.bench import survive
from penstock.client.bench.survivors import LIBRARIES
from penstock.client.bench.target import Target


@pytest.fixture
def finished() -> Iterator[survive.Survivor]:
    """Return a survivor whose process has said nothing and ended."""
    process = subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    found = survive.Survivor(LIBRARIES[0], process)
    found.wait_for("nothing", 10)
    yield found
    found.close()


@pytest.mark.clients
@pytest.mark.slow
def test_library_has_a_row_and_ours_sends_again_after_the_hold(target: Target) -> None:
    lines: list[str] = []
    rows = survive.survive(target, 4.0, 1.0, lines.append)
    assert [row["case"] for row in rows] == [library.name for library in LIBRARIES]
    for row in rows[:2]:
        assert row["failed"] == 2
        assert row["usable after"] == "yes"
        assert row["lost"] == 0
    assert "Timeout" in str(rows[0]["told"])
    for row in rows[2:-1]:
        assert "told" in row
    assert lines[-1] == "the queues are emptied"


def test_queue_of_a_hold_refuses_where_a_broker_cannot_hold() -> None:
    ours = Target("amqp://", {"product": "Penstock"}, "amqp10")
    other = Target("amqp://", {"product": "RabbitMQ"}, "amqp091")
    assert survive.bounded(ours, 10.0) == {"capacity_messages": 4, "hold_deadline": 70}
    assert survive.bounded(other, 10.0) == {"x_max_length": 4, "x_overflow": "reject-publish"}


@pytest.mark.parametrize(
    ("lines", "came", "expected"),
    [
        ([{"number": 0, "seconds": 0.1}], [0], {"sent": 1, "failed": 0, "lost": 0, "told": None}),
        ([{"number": 0, "seconds": 0.1}], [], {"sent": 1, "failed": 0, "lost": 1}),
        ([{"number": 0, "seconds": 2, "error": "late"}], [0], {"sent": 0, "failed but came": "1 of 1", "told": "late"}),
        ([], [], {"sent": 0, "told": "nothing: it waits", "usable after": "no answer"}),
    ],
)  # fmt: skip
def test_row_counts_outcomes_and_arrived_messages(
    lines: list[dict[str, object]], came: list[int], expected: dict[str, object], finished: survive.Survivor
) -> None:
    finished.lines = [{"number": 0, "begun": True}, *lines]
    finished.came = came
    row = finished.row()
    assert {name: row[name] for name in expected} == expected
