"""Move of the messages of one queue to another broker, without its command."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import penstock.sync
from penstock.cli import broker_move
from penstock.cli.broker_move import BrokerMove
from penstock.cli.move_counts import MoveCounts
from penstock.cli.progress import Progress
from penstock.errors import ConfigError
from tests.support.brokers import BrokerProcess, eventually, some_name

Ends = tuple[penstock.sync.Connection, penstock.sync.Connection]


@pytest.fixture
def ends(broker: BrokerProcess) -> Iterator[Ends]:
    """Connections of both ends: two queues of one broker are enough."""
    with (
        penstock.sync.connect(broker.url, protocol="amqp091") as old,
        penstock.sync.connect(broker.url, protocol="amqp091") as new,
    ):
        yield old, new


def queues(ends: Ends, count: int, **settings: object) -> tuple[str, str]:
    old, new = ends
    source, target = some_name("source"), some_name("target")
    old.declare_queue(source)
    new.declare_queue(target, **settings)
    with old.publisher(routing_key=source) as publisher:
        publisher.send_many([b"%d" % number for number in range(count)])
    return source, target


def moved(ends: Ends, source: str, target: str, most: int | None = None, filter: str = "") -> MoveCounts:
    counts = MoveCounts()
    BrokerMove(*ends, source, target, filter, "guest", counts, Progress(False)).run(most)
    return counts


@pytest.mark.parametrize("most", [1, 3, 500, 501, 1000, None])
def test_move_takes_no_more_messages_than_are_wanted(broker: BrokerProcess, ends: Ends, most: int | None) -> None:
    source, target = queues(ends, 700)
    counts = moved(ends, source, target, most)
    expected = min(most or 700, 700)
    assert (counts.moved, counts.queues, counts.looked_at, counts.refused) == (expected, 1, 1, 0)
    eventually(lambda: (broker.depth(source), broker.depth(target)) == (700 - expected, expected), "both depths")


def test_refused_messages_of_a_move_stay_in_their_queue(broker: BrokerProcess, ends: Ends) -> None:
    source, target = queues(ends, 6, x_max_length=2, x_overflow="reject-publish")
    counts = moved(ends, source, target)
    assert (counts.moved, counts.refused) == (2, 4)
    assert len(counts.reasons) == 1
    eventually(lambda: broker.depth(source) == 4, "they are back")


def test_unmatched_messages_of_a_move_are_bounded(
    broker: BrokerProcess, ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_move, "UNMATCHED_MOST", 3)
    source, target = queues(ends, 5)
    with pytest.raises(ConfigError, match="more than 3 messages are left; the others were not looked at"):
        moved(ends, source, target, filter="kind = 'bill'")
    eventually(lambda: broker.depth(source) == 5, "nothing is taken")
    assert broker.depth(target) == 0


def test_invalid_filter_of_a_move_is_refused_before_a_message_is_taken(broker: BrokerProcess, ends: Ends) -> None:
    source, target = queues(ends, 1)
    with pytest.raises(ConfigError, match="--filter is not a selector"):
        moved(ends, source, target, filter="kind = = 'bill'")
    assert broker.depth(source) == 1
