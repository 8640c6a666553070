"""pika: queues, exchanges and bindings, and what becomes of them."""

from __future__ import annotations

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
    UnroutableError,
)

from tests.support.brokers import BrokerProcess, eventually
from tests.support.pika_helpers import take_all

pytestmark = pytest.mark.clients


def code_of(channel: BlockingChannel, action: str, **arguments: object) -> int:
    """Return the code with which a call closes its channel."""
    with pytest.raises(ChannelClosedByBroker) as closed:
        getattr(channel, action)(**arguments)
    return closed.value.reply_code


def test_queue_is_declared_found_and_deleted(channel: BlockingChannel, name: str) -> None:
    assert channel.queue_declare(name).method.queue == name
    assert channel.queue_declare(name).method.message_count == 0
    channel.basic_publish("", name, b"1")
    channel.basic_publish("", name, b"2")
    found = channel.queue_declare(name, passive=True).method
    assert (found.message_count, found.consumer_count) == (2, 0)
    assert channel.queue_delete(name).method.message_count == 2
    assert channel.queue_delete(name).method.message_count == 0, "what does not exist can be deleted"
    assert code_of(channel, "queue_declare", queue=name, passive=True) == 404


def test_broker_names_a_queue_and_an_empty_name_means_the_last_one(channel: BlockingChannel) -> None:
    first = channel.queue_declare("", exclusive=True).method.queue
    second = channel.queue_declare("", exclusive=True).method.queue
    assert first != second
    assert first.startswith("amq.gen-")
    channel.queue_bind("", "amq.direct", "key")
    channel.basic_publish("amq.direct", "key", b"x")
    assert take_all(channel, second) == [b"x"]
    assert channel.queue_purge("").method.message_count == 0
    assert channel.queue_declare(second, passive=True).method.message_count == 0


def test_exclusive_queue_belongs_to_its_connection_and_goes_with_it(broker: BrokerProcess, name: str) -> None:
    owner = pika.BlockingConnection(pika.URLParameters(broker.url))
    other = pika.BlockingConnection(pika.URLParameters(broker.url))
    owner.channel().queue_declare(name, exclusive=True)
    for action, arguments in [
        ("queue_declare", {"queue": name, "exclusive": True}),
        ("queue_declare", {"queue": name, "passive": True}),
        ("queue_bind", {"queue": name, "exchange": "amq.fanout"}),
        ("queue_purge", {"queue": name}),
        ("queue_delete", {"queue": name}),
        ("basic_get", {"queue": name}),
    ]:
        assert code_of(other.channel(), action, **arguments) == 405
    owner.close()
    assert other.channel().queue_declare(name).method.message_count == 0
    other.channel().queue_delete(name)
    other.close()


def test_auto_delete_queue_goes_with_its_last_consumer_and_not_before(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, auto_delete=True)
    assert channel.queue_declare(name, passive=True, auto_delete=True)
    first = channel.basic_consume(name, lambda *_: None)
    second = channel.basic_consume(name, lambda *_: None)
    channel.basic_cancel(first)
    assert channel.queue_declare(name, passive=True).method.consumer_count == 1
    channel.basic_cancel(second)
    assert code_of(channel, "queue_declare", queue=name, passive=True) == 404


def test_deleting_only_if_unused_or_empty(
    channel: BlockingChannel, connection: pika.BlockingConnection, name: str
) -> None:
    channel.queue_declare(name)
    channel.confirm_delivery()
    channel.basic_publish("", name, b"x")
    assert code_of(connection.channel(), "queue_delete", queue=name, if_empty=True) == 406
    consuming = connection.channel()
    consuming.basic_consume(name, lambda *_: None)
    assert code_of(connection.channel(), "queue_delete", queue=name, if_unused=True) == 406
    consuming.close()
    assert channel.queue_delete(name, if_unused=True).method.message_count == 1


def test_purge_takes_what_is_not_with_a_consumer(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, exclusive=True)
    for _ in range(5):
        channel.basic_publish("", name, b"x")
    method, _, _ = channel.basic_get(name)
    assert channel.queue_purge(name).method.message_count == 4
    assert method is not None
    channel.basic_nack(method.delivery_tag, requeue=True)
    assert take_all(channel, name) == [b"x"]


def test_queue_expires_and_so_do_messages(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name + "-messages", exclusive=True, arguments={"x-message-ttl": 100})
    channel.queue_declare(name + "-queue", arguments={"x-expires": 300})
    channel.basic_publish("", name + "-messages", b"x")
    eventually(lambda: channel.queue_declare(name + "-messages", passive=True).method.message_count == 0, "expiry")

    def is_gone() -> bool:
        probe = channel.connection.channel()
        try:
            probe.queue_declare(name + "-queue", arguments={"x-expires": 299})
        except ChannelClosedByBroker:
            return False  # 406: it is still there, with other arguments, and asking for it was no use of it.
        probe.queue_delete(name + "-queue")
        return True

    eventually(is_gone, "the unused queue expires")


ROUTES = [
    ("direct", [("a", "", {}), ("b", "b", {})], [("", {}, "a"), ("b", {}, "b"), ("c", {}, "")]),
    ("fanout", [("a", "x", {}), ("b", "", {})], [("anything", {}, "ab")]),
    (
        "topic",
        [("a", "stock.*.nyse", {}), ("b", "stock.#", {}), ("c", "#", {}), ("d", "*", {}), ("e", "#.nyse.#", {})],
        [
            ("stock.usd.nyse", {}, "abce"),
            ("stock", {}, "bcd"),
            ("stock.nyse", {}, "bce"),
            ("bond.nyse.x.y", {}, "ce"),
            ("", {}, "c"),  # An empty key has no word (as in RabbitMQ).
            ("a.b", {}, "c"),
        ],
    ),
    (
        "headers",
        [
            ("a", "", {"x-match": "all", "type": "report", "size": 5}),
            ("b", "", {"x-match": "any", "type": "report", "size": 5}),
            ("c", "", {"type": None}),
            ("d", "", {}),
        ],
        [
            ("", {"type": "report", "size": 5, "more": 1}, "abcd"),
            ("", {"type": "report"}, "bcd"),
            ("", {"size": 5}, "bd"),
            ("", {"type": "other"}, "cd"),
            ("", {}, "d"),
        ],
    ),
]


@pytest.mark.parametrize(("kind", "bindings", "messages"), ROUTES, ids=[route[0] for route in ROUTES])
def test_exchange_routes_as_its_type_says(
    channel: BlockingChannel,
    name: str,
    kind: str,
    bindings: list[tuple[str, str, dict[str, object]]],
    messages: list[tuple[str, dict[str, object], str]],
) -> None:
    channel.exchange_declare(name, kind, auto_delete=True)
    for queue, key, arguments in bindings:
        channel.queue_declare(f"{name}-{queue}", exclusive=True)
        channel.queue_bind(f"{name}-{queue}", name, key, arguments)
    for key, headers, expected in messages:
        body = f"{key} {sorted(headers)}".encode()
        channel.basic_publish(name, key, body, pika.BasicProperties(headers=headers))
        reached = "".join(queue for queue, _, _ in bindings if body in take_all(channel, f"{name}-{queue}"))
        assert reached == expected, (key, headers)


def test_exchanges_are_bound_to_exchanges_even_in_a_ring(channel: BlockingChannel, name: str) -> None:
    for each in ("a", "b", "c"):
        channel.exchange_declare(f"{name}-{each}", "topic")
    channel.queue_declare(name, exclusive=True)
    channel.exchange_bind(f"{name}-b", f"{name}-a", "#")
    channel.exchange_bind(f"{name}-c", f"{name}-b", "k.#")
    channel.exchange_bind(f"{name}-a", f"{name}-c", "#")
    channel.queue_bind(name, f"{name}-c", "#")
    channel.queue_bind(name, f"{name}-a", "#")
    channel.basic_publish(f"{name}-a", "k.1", b"once")
    assert take_all(channel, name) == [b"once"]
    channel.exchange_unbind(f"{name}-c", f"{name}-b", "k.#")
    channel.queue_unbind(name, f"{name}-a", "#")
    channel.basic_publish(f"{name}-a", "k.1", b"nowhere")
    assert take_all(channel, name) == []
    for each in ("a", "b", "c"):
        channel.exchange_delete(f"{name}-{each}")


def test_auto_delete_exchange_goes_with_its_last_binding(channel: BlockingChannel, name: str) -> None:
    channel.exchange_declare(name, "direct", auto_delete=True)
    channel.queue_declare(name, exclusive=True)
    channel.queue_bind(name, name, "k")
    channel.exchange_declare(name, passive=True)
    channel.queue_unbind(name, name, "k")
    assert code_of(channel, "exchange_declare", exchange=name, passive=True) == 404


def test_internal_exchange_takes_no_publishes(channel: BlockingChannel, name: str) -> None:
    channel.exchange_declare(name, "fanout", internal=True, auto_delete=True)
    channel.confirm_delivery()
    assert code_of(channel, "basic_publish", exchange=name, routing_key="", body=b"x") == 403


def test_exchange_in_use_is_not_deleted_if_unused_is_asked_for(channel: BlockingChannel, name: str) -> None:
    channel.exchange_declare(name, "fanout")
    channel.queue_declare(name, exclusive=True)
    channel.queue_bind(name, name)
    assert code_of(channel.connection.channel(), "exchange_delete", exchange=name, if_unused=True) == 406
    channel.exchange_delete(name)
    channel.exchange_delete(name)


def test_queue_that_is_deleted_takes_its_bindings_along(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name)
    channel.queue_bind(name, "amq.fanout")
    channel.queue_delete(name)
    channel.queue_declare(name, exclusive=True)
    channel.confirm_delivery()
    with pytest.raises(UnroutableError):
        channel.basic_publish("amq.direct", name, b"x", mandatory=True)
    channel.basic_publish("amq.fanout", "", b"x")
    assert take_all(channel, name) == []


def test_mandatory_message_without_a_road_comes_back_before_its_confirmation(channel: BlockingChannel) -> None:
    channel.confirm_delivery()
    with pytest.raises(UnroutableError) as unroutable:
        channel.basic_publish("amq.topic", "no.road", b"back", pika.BasicProperties(message_id="m"), mandatory=True)
    (returned,) = unroutable.value.messages
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert (returned.method.exchange, returned.method.routing_key) == ("amq.topic", "no.road")
    assert (returned.body, returned.properties.message_id) == (b"back", "m")
    channel.basic_publish("amq.topic", "no.road", b"gone", mandatory=False)


@pytest.mark.parametrize(
    ("action", "arguments", "code", "said"),
    [
        ("queue_declare", {"queue": "none", "passive": True}, 404, "no queue 'none' in vhost '/'"),
        ("exchange_declare", {"exchange": "none", "passive": True}, 404, "no exchange 'none' in vhost '/'"),
        ("basic_consume", {"queue": "none", "on_message_callback": print}, 404, "no queue 'none'"),
        ("queue_purge", {"queue": "none"}, 404, "no queue 'none'"),
        ("queue_bind", {"queue": "none", "exchange": "amq.fanout"}, 404, "no queue 'none'"),
        ("exchange_declare", {"exchange": "amq.mine"}, 403, "reserved prefix 'amq.*'"),
        ("exchange_declare", {"exchange": "amq.topic", "exchange_type": "fanout"}, 406, "inequivalent arg 'type'"),
        ("exchange_delete", {"exchange": "amq.fanout"}, 403, "amq.fanout"),
        ("basic_ack", {"delivery_tag": 99}, 406, "unknown delivery tag 99"),
    ],
)
def test_error_closes_its_channel_and_no_more(
    connection: pika.BlockingConnection, action: str, arguments: dict[str, object], code: int, said: str
) -> None:
    beside, channel = connection.channel(), connection.channel()

    def act() -> None:
        getattr(channel, action)(**arguments)
        channel.basic_qos(0)

    with pytest.raises(ChannelClosedByBroker) as closed:
        act()
    assert closed.value.reply_code == code
    assert said in closed.value.reply_text
    beside.basic_qos(prefetch_count=1)
    assert connection.channel(channel.channel_number).is_open, "the number is free again"


def test_publish_to_an_exchange_that_does_not_exist_is_404(channel: BlockingChannel) -> None:
    channel.confirm_delivery()
    with pytest.raises(ChannelClosedByBroker) as closed:
        channel.basic_publish("no-such-exchange", "k", b"x")
    assert closed.value.reply_code == 404


def test_what_is_not_built_closes_the_connection_with_540(broker: BrokerProcess) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    with pytest.raises(ConnectionClosedByBroker) as closed:
        connection.channel().basic_recover(requeue=False)
    assert closed.value.reply_code == 540


def test_vhost_that_does_not_exist_is_530_and_a_wrong_password_403(broker: BrokerProcess) -> None:
    with pytest.raises(ProbableAccessDeniedError, match=r"\(530\).*vhost moon not found"):
        pika.BlockingConnection(pika.URLParameters(broker.url + "moon"))
    with pytest.raises(ProbableAuthenticationError, match=r"\(403\).*ACCESS_REFUSED"):
        pika.BlockingConnection(pika.URLParameters(broker.url.replace("guest:guest", "guest:wrong")))
