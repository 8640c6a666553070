"""Channels: deliveries, answers, states and ends; and channel.flow for clients that obey it.

Both sides can close a channel. channel.flow is sent only to clients that obey it, and is enforced.
"""

from __future__ import annotations

import pytest

from penstock.connections.client_profiles import AMQP_0_9_1, PROFILES
from penstock.connections.client_session import SessionState
from penstock.content.properties import Properties
from penstock.driver.driver import BrokerDriver
from penstock.protocols.amqp091.channel import HEADERS_MAX
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, method_frame
from tests.support.driven_connection import Dialogue, Frame, blocked_publisher, drain, make_driver, methods, publish
from tests.support.limited_connections import limits


def test_channel_delivers_a_message_with_tag_address_and_content() -> None:
    client = Dialogue(make_driver()).declare("q")
    client.say(publish("q", b"hello"))
    _, delivered, header, body = client.say(method_frame(1, spec.BASIC_CONSUME, queue="q", consumer_tag="t"))
    args = decode_method(delivered[2]).args
    assert (args["consumer_tag"], args["delivery_tag"], args["routing_key"]) == ("t", 1, "q")
    assert header[0] == spec.FRAME_HEADER
    assert body[2] == b"hello"


def test_channel_of_an_old_client_gets_no_cancel_for_a_deleted_queue(driver: BrokerDriver) -> None:
    client, other = Dialogue(driver), Dialogue(driver)
    client.declare("q")
    client.say(method_frame(1, spec.BASIC_CONSUME, queue="q", consumer_tag="t"))
    other.say(method_frame(1, spec.QUEUE_DELETE, queue="q"))
    assert client.listen() == [], "a client that does not know of cancellations hears of none"
    assert not client.connection.engine.session(1).consumers  # type: ignore[union-attr]


def test_channel_end_requeues_the_deliveries() -> None:
    client = Dialogue(make_driver()).declare("q")
    client.say(publish("q", b"hello") + method_frame(1, spec.BASIC_CONSUME, queue="q"))
    queue = client.driver.broker.vhost("/").queue("q")
    assert int(queue.unacked_messages) == 1
    close = method_frame(1, spec.CHANNEL_CLOSE, reply_code=200, reply_text="", class_id=0, method_id=0)
    assert client.names(close) == ["channel.close-ok"]
    assert (int(queue.unacked_messages), int(queue.available())) == (0, 1)


def test_channel_routes_by_the_selector_of_a_binding(driver: BrokerDriver) -> None:
    client = Dialogue(driver).declare("q")
    selector = {"x-jms-selector": "amqp.message_id LIKE 'order-%' AND JMSPriority > 4"}
    bound = client.names(
        method_frame(1, spec.QUEUE_BIND, queue="q", exchange="amq.topic", routing_key="#", arguments=selector)
    )
    assert bound == ["queue.bind-ok"]
    for name, priority in (("order-1", 5), ("order-2", 4), ("offer-1", 9)):
        client.say(publish("k", b"x", properties=Properties(message_id=name, priority=priority), exchange="amq.topic"))
    assert driver.broker.vhosts["/"].queues["q"].messages == 1
    invalid = {"x-jms-selector": "a ="}
    bind = method_frame(1, spec.QUEUE_BIND, queue="q", exchange="amq.topic", routing_key="#", arguments=invalid)
    assert client.names(bind) == ["channel.close"]


UNKNOWN_QUEUE = method_frame(1, spec.QUEUE_DECLARE, queue="none", passive=True)
CLOSE = method_frame(1, spec.CHANNEL_CLOSE, reply_code=200, reply_text="bye", class_id=0, method_id=0)
CLOSE_OK = method_frame(1, spec.CHANNEL_CLOSE_OK)
OPEN = method_frame(1, spec.CHANNEL_OPEN)


def random_exchange(driver: BrokerDriver, *queues: str) -> Dialogue:
    """Return a client of a broker with exchange `r`, which leads to one of these queues by chance."""
    client = Dialogue(driver)
    client.say(method_frame(1, spec.EXCHANGE_DECLARE, exchange="r", type="x-random"))
    for queue in queues:
        client.declare(queue)
        client.say(method_frame(1, spec.QUEUE_BIND, queue=queue, exchange="r"))
    return client


def test_channel_reads_no_headers_for_a_random_exchange(driver: BrokerDriver) -> None:
    """A header that is too large to route by it is no obstacle for chance."""
    client = random_exchange(driver, "q")
    large = Properties(headers={"note": "x" * (HEADERS_MAX + 1)})
    assert client.names(publish("k", b"1", properties=large, exchange="r", frame_max=1 << 20)) == []
    assert int(client.vhost.queues["q"].messages) == 1


def test_channel_reads_headers_where_chance_leads_to_an_exchange_by_headers(driver: BrokerDriver) -> None:
    client = random_exchange(driver, "q", "other")
    client.say(method_frame(1, spec.EXCHANGE_DECLARE, exchange="h", type="headers"))
    client.say(method_frame(1, spec.EXCHANGE_BIND, destination="h", source="r"))
    client.declare("hq")
    client.say(method_frame(1, spec.QUEUE_BIND, queue="hq", exchange="h", arguments={"kind": "bill"}))
    for _ in range(60):
        client.say(publish("k", b"1", properties=Properties(headers={"kind": "bill"}), exchange="r"))
    counts = {name: int(client.vhost.queues[name].messages) for name in ("q", "other", "hq")}
    assert sum(counts.values()) == 60
    assert min(counts.values()) > 0


def test_channel_closed_by_an_error_frees_the_number_after_close_ok() -> None:
    client = Dialogue(make_driver())
    channel = client.connection.engine.channels[1]
    assert client.names(UNKNOWN_QUEUE) == ["channel.close"]
    assert channel.state == SessionState.CLOSE_SENT
    assert client.names(UNKNOWN_QUEUE) == [], "what is sent on it is ignored"
    assert client.names(CLOSE_OK + OPEN) == ["channel.open-ok"]
    assert channel.state == SessionState.ENDED


def test_channel_closed_by_the_client_is_answered_after_the_teardown() -> None:
    client = Dialogue(make_driver())
    channel = client.connection.engine.channels[1]
    assert client.names(CLOSE) == ["channel.close-ok"]
    assert channel.state == SessionState.ENDED
    assert client.connection.engine.channels == {}


def test_channel_closed_by_both_sides_may_be_opened_again_before_close_ok() -> None:
    client = Dialogue(make_driver())
    before = client.connection.engine.channels[1]
    assert client.names(UNKNOWN_QUEUE) == ["channel.close"]
    assert client.names(CLOSE + CLOSE) == ["channel.close-ok", "channel.close-ok"]
    assert before.state == SessionState.CLOSED_BY_BOTH
    assert client.names(OPEN) == ["channel.open-ok"]
    assert before.state == SessionState.ENDED
    assert client.connection.engine.channels[1].state == SessionState.OPEN


def test_channels_end_with_the_connection_in_any_state() -> None:
    client = Dialogue(make_driver())
    client.say(method_frame(2, spec.CHANNEL_OPEN) + UNKNOWN_QUEUE)
    first, second = client.connection.engine.channels[1], client.connection.engine.channels[2]
    assert (first.state, second.state) == (SessionState.CLOSE_SENT, SessionState.OPEN)
    client.driver.disconnect(client.connection)
    assert first.state == second.state == SessionState.ENDED


def flows(frames: list[Frame]) -> list[object]:
    return [method.args["active"] for method in methods(frames) if method.id == spec.CHANNEL_FLOW]


def test_client_that_obeys_is_asked_to_stop_and_to_go_on() -> None:
    driver, peer, came = blocked_publisher(obeys=True)
    assert flows(came) == [False]
    assert peer.say(method_frame(1, spec.CHANNEL_FLOW_OK, active=False)) == []
    drain(driver, "q")
    assert flows(peer.listen(101.0)) == [True]
    peer.say(publish("q", b"3"))
    assert flows(peer.say(publish("q", b"4"))) == [False]


def test_client_that_goes_on_is_served_until_the_enforcement_time_and_then_closed() -> None:
    driver, peer, _ = blocked_publisher(obeys=True)
    driver.begin(104.9)
    assert methods(peer.say(publish("q", b"3"))) == []
    driver.begin(105.1)
    closed, unblocked = methods(peer.say(publish("q", b"4")))
    assert (closed.name, unblocked.name) == ("channel.close", "connection.unblocked")
    assert closed.args["reply_code"] == 506
    assert "channel.flow was requested" in str(closed.args["reply_text"])
    assert [note.text for note in driver.log_queue.take() if "CHN-1012" in note.text]
    assert driver.broker.vhosts["/"].queues["q"].messages == 3, "what was published in time is in the queue"


def test_pause_that_ended_in_time_does_not_count_later() -> None:
    driver, peer, _ = blocked_publisher(obeys=True)
    drain(driver, "q")
    peer.listen(103.0)
    driver.begin(200.0)
    peer.say(publish("q", b"3"))
    assert flows(peer.say(publish("q", b"4"))) == [False]
    driver.begin(201.0)
    assert methods(peer.say(publish("q", b"5"))) == []


NOT_OBEYING = [row.product for row in PROFILES.values() if row.protocol == AMQP_0_9_1 and not row.obeys_flow]


@pytest.mark.parametrize("product", ["", "somebody's own", *NOT_OBEYING])
def test_client_without_known_obedience_gets_no_channel_flow(product: str) -> None:
    _, peer, came = blocked_publisher(product=product, obeys=product in PROFILES)
    assert flows(came) == [], "not even who announces it, when its library is known not to obey"
    told = not (product in PROFILES and PROFILES[product].fails_when_blocked)
    assert [method.name for method in methods(came)] == ["connection.blocked"] * told
    assert flows(peer.listen(200.0)) == []


def test_client_that_obeys_is_asked_to_go_on_at_the_hold_deadline() -> None:
    driver, peer, _ = blocked_publisher(obeys=True)
    assert flows(peer.listen(124.9)) == []
    assert flows(peer.listen(125.1)) == [True], "nobody else would ever tell its caller"
    depth = driver.broker.vhosts["/"].queues["q"].messages
    assert methods(peer.say(publish("q", b"held"))) == []
    assert driver.broker.vhosts["/"].queues["q"].messages == depth, "it has waited a whole hold deadline: it is stopped"
    assert methods(peer.listen(150.0)) == []
    closed = methods(peer.listen(150.2))[0]
    assert (closed.name, closed.args["reply_code"]) == ("channel.close", 506)
    assert "refused after its hold deadline" in str(closed.args["reply_text"])


def test_client_that_obeys_waits_for_room_without_a_hold_deadline() -> None:
    driver = make_driver(now=100.0)
    peer = Dialogue(driver, obeys=True)
    peer.declare("q", capacity_messages=10, stop_messages=0, resume_messages=0, hold_deadline=0)
    assert flows(peer.say(publish("q", b"1"))) == [False]
    assert flows(peer.listen(1e6)) == []
    drain(driver, "q")
    assert flows(peer.listen(1e6)) == [True]


def test_client_that_was_asked_to_stop_and_then_chose_confirms_is_asked_to_go_on() -> None:
    driver, peer, came = blocked_publisher(obeys=True)
    assert flows(came) == [False]
    assert peer.names(method_frame(1, spec.CONFIRM_SELECT)) == ["connection.unblocked", "confirm.select-ok"]
    drain(driver, "q")
    assert flows(peer.listen(101.0)) == [True]


def test_channel_that_ends_while_asked_to_stop_leaves_no_timer() -> None:
    driver, peer, _ = blocked_publisher(obeys=True)
    assert driver.broker.timers.next() == 125.0
    peer.say(method_frame(1, spec.CHANNEL_CLOSE, reply_code=200, reply_text="", class_id=0, method_id=0))
    assert driver.broker.timers.next() is None


def confirming(driver: BrokerDriver, **who: object) -> Dialogue:
    """A client with confirms on channels 1 and 2, and queues q and r that close with their first message."""
    driver.begin(100.0)
    peer = Dialogue(driver, **who)  # type: ignore[arg-type]
    for queue in ("q", "r"):
        peer.declare(queue, capacity_messages=10, stop_messages=0, resume_messages=0)
    peer.confirm()
    peer.names(method_frame(2, spec.CHANNEL_OPEN) + method_frame(2, spec.CONFIRM_SELECT))
    return peer


def test_channel_with_confirms_is_asked_to_stop_if_the_client_obeys() -> None:
    driver = make_driver()
    peer = confirming(driver, obeys=True)
    came = peer.say(publish("q", b"1"))
    assert [(method.name, frame[1]) for method, frame in zip(methods(came), came, strict=True)] == [("channel.flow", 1)]
    assert flows(peer.say(publish("nowhere", b"2", channel=2))) == [], "another channel goes on"
    drain(driver, "q")
    assert [method.name for method in methods(peer.listen(101.0))] == ["channel.flow", "basic.ack"]


def test_channel_with_confirms_is_asked_to_resume_with_the_confirm(driver: BrokerDriver) -> None:
    peer = confirming(driver, obeys=True)
    peer.say(publish("q", b"1"))
    assert [method.name for method in methods(peer.listen(125.1))] == ["channel.flow", "basic.ack"]
    assert [method.name for method in methods(peer.say(publish("q", b"held")))] == []
    assert [method.name for method in methods(peer.listen(150.2))] == ["basic.nack"]


def test_channel_with_confirms_stays_stopped_while_the_second_of_two_gates_is_closed(driver: BrokerDriver) -> None:
    peer = confirming(driver, obeys=True)
    assert flows(peer.say(publish("q", b"1") + publish("r", b"2"))) == [False]
    drain(driver, "q")
    assert flows(peer.listen(101.0)) == []
    drain(driver, "r")
    assert flows(peer.listen(102.0)) == [True]


def test_channel_with_confirms_is_closed_after_the_enforcement_time() -> None:
    driver = make_driver(limits(flow_enforcement_s=2))
    peer = confirming(driver, obeys=True)
    peer.say(publish("q", b"1"))
    driver.begin(101.9)
    assert methods(peer.say(publish("q", b"2"))) == []
    driver.begin(102.1)
    closed = methods(peer.say(publish("q", b"3")))[0]
    assert (closed.name, closed.args["reply_code"]) == ("channel.close", 506)


def test_channel_with_confirms_of_the_java_client_is_blocked_by_confirms(driver: BrokerDriver) -> None:
    """Its ConfirmListener runs in the thread that reads: one that publishes would wait for itself."""
    java = confirming(driver, product="RabbitMQ", platform="Java")
    assert flows(java.say(publish("q", b"1"))) == []
    plain = Dialogue(driver, product="RabbitMQ", platform="Java")
    assert flows(plain.say(publish("q", b"1"))) == [False]
    announcing = Dialogue(driver, product="RabbitMQ", platform="Java", obeys=True)
    announcing.confirm()
    assert flows(announcing.say(publish("q", b"1"))) == [False], "it may announce the capability itself"
