"""Publishers without confirms whose process ends while what they sent is held: what goes in, what is lost."""

from __future__ import annotations

import pytest

from penstock.core.publish.closed_sessions import RESET
from penstock.core.queue.queue import Queue
from penstock.driver.driver import BrokerDriver
from penstock.management import why
from penstock.management.flow_log_records import Recorder
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, method_frame
from tests.support.driven_connection import Dialogue, make_hub, publish

CAPACITY = 20
SENT = 40


def recording_hub() -> BrokerDriver:
    hub = make_hub()
    hub.recorder = Recorder(hub.broker)
    hub.begin(100.0)
    return hub


def publisher(hub: BrokerDriver, sent: int = SENT, confirms: bool = False, deadline_s: int = 10) -> Dialogue:
    """A client that has sent more than its queue takes; the rest is held."""
    client = Dialogue(hub)
    client.declare("q", capacity_messages=CAPACITY, hold_deadline=deadline_s)
    if confirms:
        client.confirm()
    client.say(b"".join(publish("q", b"%d" % number) for number in range(sent)))
    assert client.connection.holding.messages == sent - CAPACITY
    return client


def queue_of(hub: BrokerDriver) -> Queue:
    return hub.broker.vhosts["/"].queues["q"]


def end(hub: BrokerDriver, client: Dialogue) -> None:
    """The peer closes its side of the socket, and then the socket is gone."""
    client.connection.hung_up()
    assert not hub.run_turn()
    hub.disconnect(client.connection)
    assert not hub.run_turn()


def take_all(hub: BrokerDriver, now: float) -> list[bytes]:
    """Consume and acknowledge until nothing comes any more, at this time; returns the bodies."""
    reader = Dialogue(hub)
    bodies: list[bytes] = []
    frames = reader.say(method_frame(1, spec.BASIC_CONSUME, queue="q", consumer_tag="c"))
    while frames:
        hub.begin(now)
        bodies += [payload for kind, _, payload in frames if kind == spec.FRAME_BODY]
        tags = [
            method.args["delivery_tag"]
            for method in (decode_method(payload) for kind, _, payload in frames if kind == spec.FRAME_METHOD)
            if method.id == spec.BASIC_DELIVER
        ]
        frames = reader.say(b"".join(method_frame(1, spec.BASIC_ACK, delivery_tag=tag) for tag in tags))
    return bodies


def lines(hub: BrokerDriver, number: str) -> list[str]:
    return [note.text for note in hub.take_log_lines() if number in note.text]


def refusals(hub: BrokerDriver) -> list[tuple[object, object]]:
    """Cause and count of each record of the flow log about refused publishes."""
    hub.tick()
    return [(record["cause"], record["count"]) for record in hub.take_records() if record["event"] == "refused"]


def test_what_a_publisher_sent_before_it_closed_its_side_goes_in_in_turn() -> None:
    hub = recording_hub()
    end(hub, publisher(hub))
    assert (hub.broker.closed_session_budget.messages, queue_of(hub).messages) == (SENT - CAPACITY, CAPACITY)
    assert take_all(hub, 105.0) == [b"%d" % number for number in range(SENT)]
    assert (
        hub.broker.closed_session_budget.messages,
        hub.broker.closed_session_budget.bytes,
        hub.broker.closed_session_budget.producers,
    ) == (0, 0, {})
    assert queue_of(hub).refused == 0
    assert lines(hub, "PST-1019") == []


def test_in_confirm_mode_what_is_held_is_dropped_for_its_publisher_has_to_publish_it_again() -> None:
    hub = recording_hub()
    end(hub, publisher(hub, confirms=True))
    assert hub.broker.closed_session_budget.messages == 0
    assert take_all(hub, 105.0) == [b"%d" % number for number in range(CAPACITY)]
    assert queue_of(hub).refused == SENT - CAPACITY
    assert refusals(hub) == [("unconfirmed", SENT - CAPACITY)]
    (line,) = lines(hub, "PST-1019")
    assert "20 held when the connection ended, never confirmed" in line


def test_what_is_held_when_the_peer_resets_its_socket_is_lost_counted_logged_and_recorded_once_a_connection() -> None:
    hub = recording_hub()
    client = publisher(hub)
    client.say(method_frame(2, spec.CHANNEL_OPEN))
    client.say(b"".join(publish("q", b"more", channel=2) for _ in range(5)))
    hub.disconnect(client.connection, RESET)
    assert not hub.run_turn()
    assert take_all(hub, 105.0) == [b"%d" % number for number in range(CAPACITY)]
    assert queue_of(hub).refused == SENT - CAPACITY + 5
    assert sorted(refusals(hub), key=str) == [("reset", 20), ("reset", 5)], "one for each producer"
    (line,) = lines(hub, "PST-1019")
    assert "Publishes Lost : 25 messages" in line
    sentences = why.of_queue(queue_of(hub), hub.broker)["sentences"]
    assert isinstance(sentences, list)
    assert "queue q has refused 25 of publishers that have gone, the last of them con:1" in sentences[-1]
    assert "25 held when the peer reset the connection" in line


def test_what_has_waited_for_its_deadline_is_lost_with_the_gate_that_stopped_it_in_the_log() -> None:
    hub = recording_hub()
    end(hub, publisher(hub))
    hub.begin(109.9)
    assert not hub.run_turn()
    assert (lines(hub, "PST-1019"), hub.broker.closed_session_budget.messages) == ([], SENT - CAPACITY)
    hub.begin(110.1)
    assert not hub.run_turn()
    assert hub.broker.closed_session_budget.messages == 0
    (line,) = lines(hub, "PST-1019")
    assert "20 held until their deadline; publish to " in line
    assert "refused after its hold deadline" in line
    assert "queue 'q' holds 20 messages" in line
    assert queue_of(hub).refused == SENT - CAPACITY
    assert refusals(hub) == [("deadline", SENT - CAPACITY)]
    assert (hub.broker.closed_session_budget.bytes, hub.broker.closed_session_budget.producers) == (0, {})


def test_what_goes_beyond_the_bound_of_bytes_is_lost_and_what_came_before_goes_in() -> None:
    hub = recording_hub()
    client = publisher(hub)
    each = client.connection.holding.bytes // (SENT - CAPACITY)
    hub.broker.closed_session_budget.bound = each * 6
    end(hub, client)
    assert hub.broker.closed_session_budget.messages == 6
    assert take_all(hub, 105.0) == [b"%d" % number for number in range(CAPACITY + 6)]
    assert refusals(hub) == [("linger-bound", SENT - CAPACITY - 6)]
    (line,) = lines(hub, "PST-1019")
    assert "14 held when the connection ended, and too much is kept for such already" in line


def test_no_more_sessions_linger_than_are_allowed() -> None:
    hub = recording_hub()
    first, second = publisher(hub), Dialogue(hub)
    second.say(publish("q", b"second"))
    hub.broker.closed_session_budget.sessions = 1
    end(hub, first)
    end(hub, second)
    assert len(hub.broker.closed_session_budget.producers) == 1
    assert refusals(hub) == [("linger-bound", 1)]
    assert take_all(hub, 105.0) == [b"%d" % number for number in range(SENT)]


def test_after_the_last_of_a_connection_has_gone_no_gate_knows_it() -> None:
    hub = recording_hub()
    end(hub, publisher(hub))
    take_all(hub, 105.0)
    gate = queue_of(hub).gate
    assert (len(gate.waiters), len(gate.blocked), gate.stats.blocked()) == (0, 0, {})


def test_publishes_that_come_after_their_channel_was_refused_are_counted_too() -> None:
    hub = recording_hub()
    client = publisher(hub, deadline_s=1)
    client.listen(102.0)
    assert queue_of(hub).refused == SENT - CAPACITY
    client.say(publish("q", b"late") + publish("q", b"later"))
    assert queue_of(hub).refused == SENT - CAPACITY + 2
    end(hub, client)
    (line,) = lines(hub, "PST-1019")
    assert "2 published after their channel was closed" in line
    assert sorted(refusals(hub), key=str) == [("channel-closed", 2), ("deadline", SENT - CAPACITY)]


def test_a_publisher_without_confirms_that_is_held_gets_one_line_that_says_what_it_risks() -> None:
    hub = recording_hub()
    client = publisher(hub)
    client.say(method_frame(2, spec.CHANNEL_OPEN) + publish("q", b"more", channel=2))
    (line,) = lines(hub, "PST-1018")
    assert "/ch:1] PST-1018 : Held Without Confirms : up to 10 s, then lost" in line
    take_all(hub, 105.0)
    client.say(b"".join(publish("q", b"again") for _ in range(SENT)))
    assert lines(hub, "PST-1018") == [], "once a connection"
    end(hub, client)
    publisher(recording_hub(), confirms=True)
    assert lines(hub, "PST-1018") == []


def notices(client: Dialogue, data: bytes) -> float:
    """Send octets, and return for how long a notice is to wait of which the output is made."""
    client.connection.receive(data)
    assert not client.hub.run_turn()
    assert client.connection.notice is not None
    return client.connection.notice.waits(client.hub.broker.now)


def test_a_notice_to_a_publisher_without_confirms_waits_for_a_moment_after_its_last_publish() -> None:
    hub = recording_hub()
    client = Dialogue(hub)
    client.declare("q", capacity_messages=1)
    assert notices(client, publish("q", b"1")) == pytest.approx(0.5)
    hub.begin(100.4)
    assert notices(client, publish("q", b"2")) == pytest.approx(0.5)
    hub.begin(100.8)
    assert notices(client, publish("q", b"3")) == pytest.approx(0.2), "after a second it goes out, whatever comes"
    hub.begin(101.0)
    assert notices(client, b"") == 0
    assert [decode_method(payload).name for _, _, payload in client.listen(101.0)] == ["connection.blocked"]


def test_a_notice_that_waits_goes_with_any_answer_and_never_waits_where_confirms_or_consumers_are() -> None:
    hub = recording_hub()
    client = Dialogue(hub)
    client.declare("q", capacity_messages=1)
    assert notices(client, publish("q", b"1")) > 0
    assert notices(client, method_frame(1, spec.BASIC_QOS)) == 0
    assert client.names(b"") == ["connection.blocked", "basic.qos-ok"]
    confirming = Dialogue(hub)
    confirming.confirm()
    assert notices(confirming, publish("q", b"2")) == 0


def test_a_block_that_is_over_before_its_notice_went_out_is_not_told() -> None:
    hub = recording_hub()
    client = Dialogue(hub)
    client.declare("q", capacity_messages=1)
    assert notices(client, publish("q", b"1")) > 0
    queue_of(hub).purge(hub.broker.now)
    assert client.listen() == []
    assert client.names(publish("q", b"2")) == ["connection.blocked"]


def test_what_lingers_when_the_broker_stops_is_counted_and_logged() -> None:
    hub = recording_hub()
    end(hub, publisher(hub))
    hub.end_lingering()
    assert not hub.run_turn()
    assert (hub.broker.closed_session_budget.messages, queue_of(hub).refused) == (0, SENT - CAPACITY)
    (line,) = lines(hub, "PST-1019")
    assert "20 held when the broker stopped, or ended the channel or the connection" in line
