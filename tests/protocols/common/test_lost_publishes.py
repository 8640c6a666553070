"""Publishes that are lost: counted, logged and recorded once a connection."""

from __future__ import annotations

from penstock.core.publish.closed_sessions import RESET
from penstock.core.queue.queue import Queue
from penstock.driver.driver import BrokerDriver
from penstock.management import why
from penstock.management.flow_log_records import Recorder
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, method_frame
from tests.support.driven_connection import Dialogue, make_driver, publish

CAPACITY = 20


SENT = 40


def recording_hub() -> BrokerDriver:
    driver = make_driver()
    driver.recorder = Recorder(driver.broker)
    driver.begin(100.0)
    return driver


def publisher(driver: BrokerDriver, sent: int = SENT, confirms: bool = False, deadline_s: int = 10) -> Dialogue:
    """A client that has sent more than its queue takes; the rest is held."""
    client = Dialogue(driver)
    client.declare("q", capacity_messages=CAPACITY, hold_deadline=deadline_s)
    if confirms:
        client.confirm()
    client.say(b"".join(publish("q", b"%d" % number) for number in range(sent)))
    assert client.connection.pausing.budget.messages == sent - CAPACITY
    return client


def queue_of(driver: BrokerDriver) -> Queue:
    return driver.broker.vhosts["/"].queues["q"]


def end(driver: BrokerDriver, client: Dialogue) -> None:
    """The peer closes its side of the socket, and then the socket is gone."""
    client.connection.hung_up()
    assert not driver.run_turn()
    driver.disconnect(client.connection)
    assert not driver.run_turn()


def take_all(driver: BrokerDriver, now: float) -> list[bytes]:
    """Consume and acknowledge until nothing comes any more, at this time; returns the bodies."""
    reader = Dialogue(driver)
    bodies: list[bytes] = []
    frames = reader.say(method_frame(1, spec.BASIC_CONSUME, queue="q", consumer_tag="c"))
    while frames:
        driver.begin(now)
        bodies += [payload for kind, _, payload in frames if kind == spec.FRAME_BODY]
        tags = [
            method.args["delivery_tag"]
            for method in (decode_method(payload) for kind, _, payload in frames if kind == spec.FRAME_METHOD)
            if method.id == spec.BASIC_DELIVER
        ]
        frames = reader.say(b"".join(method_frame(1, spec.BASIC_ACK, delivery_tag=tag) for tag in tags))
    return bodies


def lines(driver: BrokerDriver, number: str) -> list[str]:
    return [note.text for note in driver.log_queue.take() if number in note.text]


def refusals(driver: BrokerDriver) -> list[tuple[object, object]]:
    """Cause and count of each record of the flow log about refused publishes."""
    driver.tick()
    return [(record["cause"], record["count"]) for record in driver.take_records() if record["event"] == "refused"]


def test_what_is_held_when_the_peer_resets_its_socket_is_lost_counted_logged_and_recorded_once_a_connection() -> None:
    driver = recording_hub()
    client = publisher(driver)
    client.say(method_frame(2, spec.CHANNEL_OPEN))
    client.say(b"".join(publish("q", b"more", channel=2) for _ in range(5)))
    driver.disconnect(client.connection, RESET)
    assert not driver.run_turn()
    assert take_all(driver, 105.0) == [b"%d" % number for number in range(CAPACITY)]
    assert queue_of(driver).counters.refused == SENT - CAPACITY + 5
    assert sorted(refusals(driver), key=str) == [("reset", 20), ("reset", 5)], "one for each producer"
    (line,) = lines(driver, "PST-1019")
    assert "Publishes Lost : 25 messages" in line
    sentences = why.of_queue(queue_of(driver), driver.broker)["sentences"]
    assert isinstance(sentences, list)
    assert "queue q has refused 25 of publishers that have gone, the last of them con:1" in sentences[-1]
    assert "25 held when the peer reset the connection" in line


def test_publishes_that_come_after_their_channel_was_refused_are_counted_too() -> None:
    driver = recording_hub()
    client = publisher(driver, deadline_s=1)
    client.listen(102.0)
    assert queue_of(driver).counters.refused == SENT - CAPACITY
    client.say(publish("q", b"late") + publish("q", b"later"))
    assert queue_of(driver).counters.refused == SENT - CAPACITY + 2
    end(driver, client)
    (line,) = lines(driver, "PST-1019")
    assert "2 published after their channel was closed" in line
    assert sorted(refusals(driver), key=str) == [("channel-closed", 2), ("deadline", SENT - CAPACITY)]


def test_a_publisher_without_confirms_that_is_held_gets_one_line_that_says_what_it_risks() -> None:
    driver = recording_hub()
    client = publisher(driver)
    client.say(method_frame(2, spec.CHANNEL_OPEN) + publish("q", b"more", channel=2))
    (line,) = lines(driver, "PST-1018")
    assert "/ch:1] PST-1018 : Held Without Confirms : up to 10 s, then lost" in line
    take_all(driver, 105.0)
    client.say(b"".join(publish("q", b"again") for _ in range(SENT)))
    assert lines(driver, "PST-1018") == [], "once a connection"
    end(driver, client)
    publisher(recording_hub(), confirms=True)
    assert lines(driver, "PST-1018") == []
