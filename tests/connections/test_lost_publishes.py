"""Publishes that are lost: counted, logged and recorded once a connection."""

from __future__ import annotations

import pytest

from penstock.core.publish.held import RESET, SUMMED_A_UNIT
from penstock.flow.work import ENDS_A_TURN
from penstock.management import why
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.closed_publishers import (
    CAPACITY,
    SENT,
    end,
    publisher,
    queue_of,
    recording_driver,
    refusals,
    take_all,
)
from tests.support.driven_connection import publish
from tests.support.log_lines import texts
from tests.support.longest_turn import LongestTurn


def test_publishes_held_at_a_socket_reset_are_lost_and_logged_once() -> None:
    driver = recording_driver()
    client = publisher(driver)
    client.say(method_frame(2, spec.CHANNEL_OPEN))
    client.say(b"".join(publish("q", b"more", channel=2) for _ in range(5)))
    driver.disconnect(client.connection, RESET)
    assert not driver.run_turn()
    assert take_all(driver, 105.0) == [b"%d" % number for number in range(CAPACITY)]
    assert queue_of(driver).counters.refused == SENT - CAPACITY + 5
    assert sorted(refusals(driver), key=str) == [("reset", 20), ("reset", 5)], "one for each producer"
    (line,) = texts(driver.log_queue, "PST-1019")
    assert "Publishes Lost : 25 messages" in line
    sentences = why.of_queue(queue_of(driver), driver.broker)["sentences"]
    assert "queue q has refused 25 of publishers that have gone, the last of them con:1" in sentences[-1]
    assert "25 held when the peer reset the connection" in line


def test_publishes_after_the_channel_was_refused_are_counted_too() -> None:
    driver = recording_driver()
    client = publisher(driver, deadline_s=1)
    client.listen(102.0)
    assert queue_of(driver).counters.refused == SENT - CAPACITY
    client.say(publish("q", b"late") + publish("q", b"later"))
    assert queue_of(driver).counters.refused == SENT - CAPACITY + 2
    end(driver, client)
    (line,) = texts(driver.log_queue, "PST-1019")
    assert "2 published after their channel was closed" in line
    assert sorted(refusals(driver), key=str) == [("channel-closed", 2), ("deadline", SENT - CAPACITY)]


def test_held_publisher_without_confirms_gets_a_single_log_line_of_the_risk() -> None:
    driver = recording_driver()
    client = publisher(driver)
    client.say(method_frame(2, spec.CHANNEL_OPEN) + publish("q", b"more", channel=2))
    (line,) = texts(driver.log_queue, "PST-1018")
    assert "/ch:1] PST-1018 : Held Without Confirms : up to 10 s, then lost" in line
    take_all(driver, 105.0)
    client.say(b"".join(publish("q", b"again") for _ in range(SENT)))
    assert texts(driver.log_queue, "PST-1018") == [], "once a connection"
    end(driver, client)
    publisher(recording_driver(), confirms=True)
    assert texts(driver.log_queue, "PST-1018") == []


@pytest.mark.parametrize("keys", [1, 50], ids=["one key", "many keys"])
def test_held_publishes_of_a_lost_connection_are_dropped_in_slices(keys: int) -> None:
    driver = recording_driver()
    broker = driver.broker
    vhost, queues, held = broker.vhosts["/"], 300, 1_000
    for number in range(queues):
        vhost.bind("amq.fanout", vhost.declare_queue(f"f{number}", {}, False, False, None, None), None, "", {})
    client = publisher(driver)
    client.connection.pausing.budget.bound = 1 << 30
    for start in range(0, held, 100):
        client.say(b"".join(publish(f"k{n % keys}", b"x", exchange="amq.fanout") for n in range(start, start + 100)))
    refused = vhost.queues["f1"].counters
    before = int(refused.refused)
    turns = LongestTurn(driver)
    driver.disconnect(client.connection, RESET)
    turns.run()
    assert turns.longest <= ENDS_A_TURN + queues
    assert refused.refused - before == held
    assert turns.turns > (held * queues // SUMMED_A_UNIT // ENDS_A_TURN if keys > 1 else 0)
