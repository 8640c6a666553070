"""Addresses of AMQP 1.0: RabbitMQ 4's and plain names, their nodes, and automatic queues.

Also: annotations with the exchange and routing key of a message.
"""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.content.properties import is_name
from penstock.core.message import Envelope
from penstock.core.settings.table import COMMAND
from penstock.core.vhost import VirtualHost
from penstock.errors import InvalidField, NotFound, PreconditionFailed
from penstock.protocols.amqp10.addresses import (
    ADDRESS_MAX,
    CACHED_MAX,
    Address,
    AddressKind,
    Node,
    ToAddresses,
    Unroutable,
    annotations_octets,
    parse_source,
    parse_target,
    parse_to,
    routing_key,
    source_node,
    target_node,
)
from penstock.settings.read import read_settings
from penstock.wire.amqp091 import spec as spec091
from penstock.wire.amqp091.codec import method_frame
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import encode
from penstock.wire.amqp10.neutral_addresses import exchange_address, queue_address, reply_queue
from penstock.wire.amqp10.values import Symbol
from tests.support.amqp10_dialogue import Amqp10Dialogue, condition, data_section, names
from tests.support.amqp10_messages import decode_message, delivered
from tests.support.amqp10_strategies import section
from tests.support.broker_fixture import House
from tests.support.driven_connection import Dialogue, methods, publish

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=255).filter(is_name)


def found(node: Node) -> tuple[str, str, str, bool]:
    return node.queue, node.exchange, node.key, node.by_subject


def nodes(address: Address) -> list[tuple[str, str, str, bool]]:
    return [found(node) for node in address.nodes]


def queue(name: str) -> tuple[str, str, str, bool]:
    return name, "", name, False


@pytest.fixture
def vhost() -> VirtualHost:
    """Queues `q`, `both` and `a/b`; exchanges `x`, `both` and `a`."""
    house = House()
    for name in ("q", "both", "a/b"):
        house.queue(name)
    for name in ("x", "both", "a"):
        house.vhost.declare_exchange(name, "topic", {}, False, False, False)
    return house.vhost


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("amqps://example.org/orders", "orders"),
        ("amqp://example.org:5672/queues/my%20orders", "/queues/my%20orders"),
        ("amqps://example.org/exchanges/x/key", "/exchanges/x/key"),
        ("amqps://example.org/x/key", "x/key"),
        ("amqps://example.org/management", "/management"),
    ],
)
def test_scheme_and_host_of_an_address_are_left_out(url: str, address: str) -> None:
    expected = parse_target(address)
    assert parse_target(url).kind == expected.kind
    assert nodes(parse_target(url)) == nodes(expected)
    assert parse_source(url, ["topic"]).kind == expected.kind


@pytest.mark.parametrize("name", ["amqps://example.org", "amqps://", "http://example.org/orders"])
def test_url_without_a_path_or_of_another_scheme_is_a_plain_name(name: str) -> None:
    assert parse_target(name, ["queue"]).nodes[0].queue == name


@pytest.mark.parametrize(
    ("text", "name"),
    [("/queues/q", "q"), ("/queues/a%2Fb%20%c3%a9%25", "a/b é%"), ("/queues/a b+é", "a b+é"), ("/queues/.%2E", "..")],
)
def test_address_of_a_queue_is_percent_decoded(text: str, name: str) -> None:
    for address in (parse_target(text, ["topic"]), parse_source(text), parse_to(text.encode())):
        assert (address.kind, nodes(address)) == (AddressKind.QUEUE, [queue(name)])
        assert address.unroutable is Unroutable.RELEASED


@pytest.mark.parametrize(
    ("text", "exchange", "key", "by_subject"),
    [
        ("/exchanges/x", "x", "", True),
        ("/exchanges/x/", "x", "", False),
        ("/exchanges/x/k.%2F", "x", "k./", False),
        ("/exchanges/%E2%82%AC/k", "€", "k", False),
    ],
)
def test_address_of_an_exchange_has_a_key_or_takes_the_subject(
    text: str, exchange: str, key: str, by_subject: bool
) -> None:
    address = parse_target(text)
    assert (address.kind, nodes(address)) == (AddressKind.EXCHANGE, [("", exchange, key, by_subject)])
    assert address.unroutable is Unroutable.RELEASED
    assert parse_target(text, ["topic"]).unroutable is Unroutable.ACCEPTED


def test_address_of_an_exchange_is_a_source_only_of_a_subscription() -> None:
    with pytest.raises(InvalidField, match="only a queue can be consumed from"):
        parse_source("/exchanges/amq.topic/news")
    assert nodes(parse_source("/exchanges/amq.topic/news", ["topic"])) == [("", "amq.topic", "news", False)]


def test_null_address_is_the_anonymous_terminus_of_targets_only() -> None:
    address = parse_target("")
    assert (address.kind, address.nodes, address.unroutable) == (AddressKind.ANONYMOUS, [], Unroutable.REJECTED)
    with pytest.raises(InvalidField, match="a source without an address"):
        parse_source("")


def test_management_node_has_an_address() -> None:
    assert parse_target("/management").kind is parse_source("/management").kind is AddressKind.MANAGEMENT


@pytest.mark.parametrize(
    ("capabilities", "target", "source"),
    [
        ([], ["exchange", "queue"], ["queue", "exchange"]),
        (["queue"], ["queue"], ["queue"]),
        (["temporary-queue"], ["queue"], ["queue"]),
        (["temporary-topic"], ["exchange"], ["exchange"]),
        (["shared", "topic"], ["exchange"], ["exchange"]),
        (["queue", "topic"], ["exchange", "queue"], ["queue", "exchange"]),
    ],
)
def test_plain_name_is_exchange_or_queue_by_capabilities(
    capabilities: list[str], target: list[str], source: list[str]
) -> None:
    kinds = {"exchange": ("", "n", "", True), "queue": queue("n")}
    assert nodes(parse_target("n", capabilities)) == [kinds[each] for each in target]
    assert nodes(parse_source("n", capabilities)) == [kinds[each] for each in source]
    accepted = target == ["exchange"]
    assert parse_target("n", capabilities).unroutable is (Unroutable.ACCEPTED if accepted else Unroutable.RELEASED)


@pytest.mark.parametrize("begin", ["queue://", "queue:"])
@pytest.mark.parametrize("capabilities", [[], ["queue"]])
def test_queue_of_activemq_is_a_queue(begin: str, capabilities: list[str]) -> None:
    for address in (parse_target(f"{begin}a%20b", capabilities), parse_source(f"{begin}a%20b", capabilities)):
        assert (address.kind, nodes(address)[0]) == (AddressKind.PLAIN, queue("a b"))
        assert queue(f"{begin}a%20b") in nodes(address), "a queue with the whole text for its name is found as before"
        assert address.unroutable is Unroutable.RELEASED


@pytest.mark.parametrize("begin", ["topic://", "topic:"])
@pytest.mark.parametrize("capabilities", [[], ["topic"]])
def test_topic_of_activemq_is_an_exchange_else_a_key_of_amq_topic(begin: str, capabilities: list[str]) -> None:
    text = f"{begin}a%20b"
    for address in (parse_target(text, capabilities), parse_source(text, capabilities)):
        assert nodes(address)[0] == ("", "a b", "", True)
        assert nodes(address)[-1] == ("", "amq.topic", "a b", False)
        assert (queue(text) in nodes(address)) == (capabilities == [])
    assert parse_target(text, capabilities).unroutable is Unroutable.ACCEPTED


@pytest.mark.parametrize(
    ("text", "source", "target"),
    [("topic://a.>", "a.#", "a.>"), ("topic://>", "#", ">"), ("topic:a>", "a>", "a>"), ("topic://a.*", "a.*", "a.*")],
)
def test_topic_of_activemq_has_wildcards_in_a_source_only(text: str, source: str, target: str) -> None:
    assert parse_source(text).nodes[-1].key == source
    assert parse_target(text).nodes[-1].key == target


@pytest.mark.parametrize(
    ("text", "capabilities", "reason"),
    [
        ("queue://a", ["topic"], "contradicts the capability"),
        ("topic:a", ["queue"], "contradicts the capability"),
        ("queue://a?consumer.prefetchSize=9", [], "options behind"),
        ("topic://%zz", [], "its name has"),
        ("topic://", [], "has no name"),
        ("queue:", [], "has no name"),
        (f"queue://{'a' * 256}", [], "256 bytes"),
        ("temp-queue://ID:host-1:1", [], "temporary node; ask for a dynamic terminus"),
        ("temp-topic://ID:host-1:1", [], "temporary node; ask for a dynamic terminus"),
    ],
)
def test_address_of_activemq_that_cannot_be_meant_is_refused(text: str, capabilities: list[str], reason: str) -> None:
    for parse in (parse_target, parse_source):
        with pytest.raises(InvalidField, match=reason):
            parse(text, capabilities)


@pytest.mark.parametrize(("begin", "key"), [("topic://", ""), ("topic:", ""), ("topic://", "amqp://broker.example/")])
def test_message_to_a_topic_of_activemq_reaches_the_subscribers(begin: str, key: str) -> None:
    client = Amqp10Dialogue()
    client.attach_receiver(f"{key}{begin}prices.%C3%A9", 0, credit=9)
    client.attach_receiver(f"{begin}prices.>", 1, credit=9)
    client.attach_receiver(f"{begin}other", 2, credit=9)
    client.attach_sender(f"{key}{begin}prices.%C3%A9", 3)
    heard = client.say(client.transfer(data_section(b"x"), 3))
    assert {each.field("handle") for each in heard if each.name == "transfer"} == {0, 1}
    client.attach_sender(None, 4)
    message = encode(spec.PROPERTIES, to=f"{begin}prices.eur") + data_section(b"y")
    heard = client.say(client.transfer(message, 4))
    assert [each.field("handle") for each in heard if each.name == "transfer"] == [1]


def test_topic_of_activemq_is_the_exchange_of_that_name_if_present() -> None:
    client = Amqp10Dialogue()
    client.vhost.declare_exchange("prices", "fanout", {}, False, False, False)
    client.attach_receiver("prices", 0, credit=9)
    client.attach_sender("topic://prices", 1)
    heard = client.say(client.transfer(data_section(b"x"), 1))
    assert names(heard).count("transfer") == 1


def test_queue_of_activemq_is_created_if_a_pattern_asks() -> None:
    client = Amqp10Dialogue()
    client.driver.broker.table.set("queue", "#", COMMAND, read_settings("queue", "#", {"auto-create": "true"}))
    attached = client.attach_receiver("queue://a%2Fb", 0)
    assert names(attached)[0] == "attach"
    assert list(client.vhost.queues) == ["a/b"]


def test_plain_name_with_a_slash_may_be_an_exchange_and_a_key() -> None:
    divided = ("", "a", "b/c%20", False)
    assert nodes(parse_target("a/b/c%20")) == [("", "a/b/c%20", "", True), queue("a/b/c%20"), divided]
    assert nodes(parse_source("a/b/c%20")) == [queue("a/b/c%20"), ("", "a/b/c%20", "", True), divided]
    assert nodes(parse_target("a/b/c%20", ["queue"])) == [queue("a/b/c%20")]
    long = "a" * 200 + "/" + "b" * 200
    assert nodes(parse_target(long)) == nodes(parse_source(long)) == [("", "a" * 200, "b" * 200, False)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("/queue/q", r"did you mean '/queues/q'\?"),
        ("/amq/queue/q", r"did you mean '/queues/q'\?"),
        ("/exchange/x/k", r"did you mean '/exchanges/x/k'\?"),
        ("/topic/k", r"did you mean '/exchanges/amq.topic/k'\?"),
        ("/queues/", "a '/' in a name is written %2F"),
        ("/queues", "neither /queues/:queue"),
        ("/queues/a/b", "a '/' in a name is written %2F"),
        ("/exchanges/x/a/b", "a '/' in a name is written %2F"),
        ("/", "neither"),
        ("/exchanges/", "the default exchange; a queue in it is /queues/:queue"),
        ("/exchanges//q", "the default exchange"),
        ("/exchanges/amq.default/q", "the default exchange"),
        ("/queues/a%2", "a '%' that two hexadecimal digits do not follow"),
        ("/queues/%+1", "a '%' that two hexadecimal digits do not follow"),
        ("/exchanges/x/%zz", "a '%' that two hexadecimal digits do not follow"),
        ("/queues/%ff", "its queue has bytes that are not UTF-8"),
        ("/queues/" + "a" * 256, "its queue has 256 bytes; the most is 255"),
        ("/exchanges/x/" + "%C3%A9" * 128, "its routing key has 256 bytes; the most is 255"),
        ("a" * 256, "its name has 256 bytes; the most is 255"),
        ("x/" + "k" * 256, "its routing key has 256 bytes"),
    ],
)
def test_address_that_cannot_be_read_is_refused_with_the_rule(text: str, reason: str) -> None:
    for parse in (parse_target, parse_source):
        with pytest.raises(InvalidField, match=reason) as refused:
            parse(text)
        assert refused.value.condition == "amqp:invalid-field"
        assert f"'{text[:60]}" in str(refused.value)


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (b"", "a message to the anonymous terminus has no address in 'to'"),
        (b"\xff", "'to' is not UTF-8"),
        (b"a" * (ADDRESS_MAX + 1), f"'to' has {ADDRESS_MAX + 1} bytes; the most is {ADDRESS_MAX}"),
        (b"/queue/q", "did you mean"),
    ],
)
def test_address_in_to_that_cannot_be_read_rejects_the_delivery(octets: bytes, reason: str) -> None:
    addresses = ToAddresses()
    for _ in range(2):
        with pytest.raises(InvalidField, match=reason) as refused:
            addresses.address(octets)
        assert refused.value.ends == "delivery"


def test_addresses_in_to_are_read_once_and_forgotten_beyond_a_bound() -> None:
    addresses = ToAddresses()
    first = addresses.address(b"/queues/0")
    assert addresses.address(b"/queues/0") is first
    for index in range(1, CACHED_MAX):
        addresses.address(b"/queues/%d" % index)
    assert addresses.address(b"/queues/0") is first
    addresses.address(b"/queues/one-more")
    assert addresses.address(b"/queues/0") is not first


@pytest.mark.parametrize(
    ("text", "capabilities", "target", "source"),
    [
        ("/queues/q", [], queue("q"), queue("q")),
        ("q", [], queue("q"), queue("q")),
        ("x", [], ("", "x", "", True), ("", "x", "", True)),
        ("both", [], ("", "both", "", True), queue("both")),
        ("both", ["queue"], queue("both"), queue("both")),
        ("both", ["topic"], ("", "both", "", True), ("", "both", "", True)),
        ("a/b", [], queue("a/b"), queue("a/b")),
        ("a/b", ["topic"], ("", "a", "b", False), ("", "a", "b", False)),
        ("a/c", [], ("", "a", "c", False), ("", "a", "c", False)),
    ],
)
def test_address_names_the_first_node_that_exists(
    vhost: VirtualHost,
    text: str,
    capabilities: list[str],
    target: tuple[str, str, str, bool],
    source: tuple[str, str, str, bool],
) -> None:
    assert found(target_node(parse_target(text, capabilities), vhost)) == target
    assert found(source_node(parse_source(text, capabilities), vhost)) == source


@pytest.mark.parametrize(
    ("text", "capabilities", "reason"),
    [
        ("/queues/none", [], "address '/queues/none': no queue 'none' in vhost '/'"),
        ("x", ["queue"], "address 'x': no queue 'x' in vhost '/'"),
        ("q", ["topic"], "address 'q': no exchange 'q' in vhost '/'"),
        ("/management", [], "address '/management' names neither a queue nor an exchange"),
        ("n/k", [], "address 'n/k': no exchange 'n/k', no queue 'n/k', no exchange 'n' in vhost '/'"),
    ],
)
def test_address_of_no_node_is_refused_with_the_name(
    vhost: VirtualHost, text: str, capabilities: list[str], reason: str
) -> None:
    with pytest.raises(NotFound) as refused:
        target_node(parse_target(text, capabilities), vhost)
    assert str(refused.value) == reason
    with pytest.raises(NotFound):
        source_node(parse_source(text, capabilities), vhost)


def test_queue_of_direct_replies_is_a_target_and_no_source(vhost: VirtualHost) -> None:
    vhost.create_reply_queue("amq.rabbitmq.reply-to.k1")
    address = queue_address("amq.rabbitmq.reply-to.k1")
    assert target_node(parse_target(address), vhost).queue == "amq.rabbitmq.reply-to.k1"
    with pytest.raises(NotFound):
        source_node(parse_source(address), vhost)


def test_routing_key_is_that_of_the_address_or_the_subject() -> None:
    assert routing_key(parse_target("/exchanges/x/k").nodes[0], "subject") == "k"
    assert routing_key(parse_target("/queues/q").nodes[0], "subject") == "q"
    node = parse_target("/exchanges/x").nodes[0]
    assert routing_key(node, "subject") == "subject"
    assert routing_key(node, "") == ""
    with pytest.raises(InvalidField, match="the routing key to exchange 'x', has 256 bytes; the most is 255"):
        routing_key(node, "é" * 128)


@given(NAMES)
def test_queue_has_an_address_with_the_queue_name(name: str) -> None:
    address = queue_address(name)
    assert address.isascii()
    assert len(address) <= ADDRESS_MAX
    assert nodes(parse_target(address)) == nodes(parse_source(address)) == [queue(name)]
    assert reply_queue(address) == name


@given(NAMES.filter(lambda name: name != "amq.default"), st.none() | st.just("") | NAMES)
def test_exchange_has_an_address_with_the_exchange_name(exchange: str, key: str | None) -> None:
    address = exchange_address(exchange, key)
    assert len(address) <= ADDRESS_MAX
    assert nodes(parse_target(address)) == [("", exchange, key or "", key is None)]


@given(st.text(), st.lists(st.sampled_from(["queue", "topic"])))
def test_arbitrary_address_is_read_or_refused(text: str, capabilities: list[str]) -> None:
    for parse in (parse_target, parse_source):
        with suppress(InvalidField):
            parse(text, capabilities)


def test_address_without_the_first_slash_is_refused_with_the_right_address(vhost: VirtualHost) -> None:
    """Proton's URL `amqp://host/queues/q` has the address `queues/q`."""
    with pytest.raises(NotFound, match=r"did you mean '/queues/gone'\?$"):
        target_node(parse_target("queues/gone", []), vhost)
    with pytest.raises(NotFound, match=r"in vhost '/'$"):
        target_node(parse_target("gone", []), vhost)


BODY = data_section(b"hello")
ADDRESS = {"x-exchange": "amq.direct", "x-routing-key": "k"}


def sent(*messages: bytes) -> list[bytes]:
    """Return what a receiver gets of messages that were sent to amq.direct with the key k."""
    client = Amqp10Dialogue().declare("q")
    vhost = client.vhost
    vhost.bind("amq.direct", vhost.queues["q"], None, "k", {})
    client.attach_sender("/exchanges/amq.direct/k")
    client.say(*[client.transfer(message) for message in messages])
    return delivered(client.attach_receiver("/queues/q", credit=len(messages)))


def test_constant_annotations_follow_the_header_of_a_message_without_any() -> None:
    for message in sent(BODY, BODY):
        assert message.endswith(annotations_octets(Envelope("amq.direct", "k")) + BODY)
        assert decode_message(message).annotations == ADDRESS


def test_annotation_bytes_of_an_envelope_are_cached() -> None:
    envelope = Envelope("", "q")
    assert annotations_octets(envelope) is annotations_octets(envelope.variant(1, 5.0, True))


@pytest.mark.parametrize(
    "before", [b"", encode(spec.HEADER, priority=3), section(spec.DELIVERY_ANNOTATIONS, {Symbol("x-hop"): 1})]
)
def test_annotations_of_a_message_are_merged(before: bytes) -> None:
    own = {Symbol("x-mine"): "a", Symbol("x-exchange"): "another"}
    (message,) = sent(before + section(spec.MESSAGE_ANNOTATIONS, own) + BODY)
    assert decode_message(message).annotations == {"x-mine": "a", **ADDRESS}
    assert message.endswith(BODY)


def test_message_of_amqp_0_9_1_has_address_annotations_too() -> None:
    client = Amqp10Dialogue()
    other = Dialogue(client.driver).declare("q")
    other.say(publish("q", b"hello"))
    (message,) = delivered(client.attach_receiver("/queues/q", credit=1))
    assert decode_message(message).annotations == {"x-exchange": "", "x-routing-key": "q"}


def test_envelope_delivered_by_both_protocols_has_bytes_of_each() -> None:
    client = Amqp10Dialogue()
    other = Dialogue(client.driver).declare("a")
    vhost = client.vhost
    vhost.declare_queue("b", {}, False, False, None, None)
    for queue in ("a", "b"):
        vhost.bind("amq.fanout", vhost.queues[queue], None, "", {})
    other.say(publish("", b"hello", exchange="amq.fanout"))
    (got,) = methods(other.say(method_frame(1, spec091.BASIC_GET, queue="a", no_ack=True)))
    assert got.args["exchange"] == "amq.fanout"
    (message,) = delivered(client.attach_receiver("/queues/b", credit=1))
    assert decode_message(message).annotations == {"x-exchange": "amq.fanout", "x-routing-key": ""}


def with_pattern(**settings: object) -> Amqp10Dialogue:
    client = Amqp10Dialogue()
    words = read_settings("queue", "orders.*", {name.replace("_", "-"): value for name, value in settings.items()})
    client.driver.broker.table.set("queue", "orders.*", COMMAND, words)
    return client


@pytest.mark.parametrize("address", ["/queues/orders.new", "orders.new"])
@pytest.mark.parametrize("sends", [True, False])
def test_queue_of_a_pattern_is_created_with_the_settings_of_that_pattern(address: str, sends: bool) -> None:
    client = with_pattern(auto_create=True, capacity_messages=7)
    heard = client.attach_sender(address) if sends else client.attach_receiver(address)
    assert names(heard)[0] == "attach"
    queue = client.vhost.queues["orders.new"]
    assert (queue.durable, queue.thresholds.capacity.messages) == (True, 7)


def test_auto_create_applies_to_matching_queues_only() -> None:
    client = with_pattern(auto_create="true")
    for handle, address in enumerate(("/queues/others", "/exchanges/orders.new/key", "orders")):
        _, detached = client.attach_sender(address, handle)
        assert condition(detached) == "amqp:not-found"
    assert client.vhost.queues == {}


def test_exchange_of_that_name_is_not_shadowed() -> None:
    client = with_pattern(auto_create=True)
    client.vhost.declare_exchange("orders.new", "topic", {}, False, False, False)
    client.attach_sender("orders.new")
    assert client.vhost.queues == {}


def test_value_is_true_or_false() -> None:
    with pytest.raises(PreconditionFailed, match="auto-create must be true or false, not 'maybe'"):
        read_settings("queue", "#", {"auto-create": "maybe"})
