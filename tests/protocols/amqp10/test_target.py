"""Targets: the route of each message by its address, subject, header and annotations."""

from __future__ import annotations

import pytest

from penstock.access.permission import TopicPermission
from penstock.access.rules import ConnectionAccess, UserRules
from penstock.core.routing.exchange import SELECTOR
from penstock.core.routing.route import Route
from penstock.core.vhost import VirtualHost
from penstock.errors import AccessRefused, BrokerError, InvalidField, NotFound
from penstock.protocols.amqp10.addresses import Unroutable, parse_target
from penstock.protocols.amqp10.incoming_link import IncomingLink
from penstock.protocols.amqp10.message_format import Amqp10Format
from penstock.protocols.amqp10.target import SHARED_MAX, SharedTargets, Target, target_of
from penstock.wire.amqp091.codec import method_frame
from penstock.wire.amqp091.spec import QUEUE_BIND
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import encode
from penstock.wire.amqp10.sections import Sections, header_octets
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import Symbol
from tests.support.amqp10_dialogue import Amqp10Dialogue, condition, data_section, sender
from tests.support.amqp10_messages import decode_message, delivered
from tests.support.driven_connection import Dialogue, make_driver
from tests.support.restored_broker import journaled
from tests.support.topology import a_vhost

GUEST = ConnectionAccess(UserRules(make_driver().broker.access, "guest"), "guest", "/")


def target(vhost: VirtualHost, address: str, *capabilities: str) -> Target:
    return target_of(vhost, GUEST, Amqp10Format(), parse_target(address, capabilities), SharedTargets())


def test_links_to_the_same_node_share_a_target_unlike_links_to_other_nodes() -> None:
    client = Amqp10Dialogue().declare("q")
    client.declare("other")
    addresses = ["/queues/q", "q", "/queues/q", "/exchanges/amq.direct/q", "/queues/other", "/exchanges/amq.direct"]
    for handle, address in enumerate(addresses):
        client.attach_sender(address, handle)
    links = client.session().links.by_handle
    targets = [link.target for link in links.values() if isinstance(link, IncomingLink)]
    assert targets[0] is targets[1] is targets[2]
    assert len(set(map(id, targets))) == 4
    client.say(*(client.transfer(data_section(b"x"), handle) for handle in range(3)))
    assert client.depth("q") == 3


def test_shared_target_follows_the_topology_for_all_links() -> None:
    client = Amqp10Dialogue().declare("q")
    for handle in (0, 1):
        client.attach_sender("/exchanges/amq.direct/k", handle)
    other = Dialogue(client.driver)
    other.say(method_frame(1, QUEUE_BIND, queue="q", exchange="amq.direct", routing_key="k"))
    client.say(client.transfer(data_section(b"x"), 0), client.transfer(data_section(b"x"), 1))
    assert client.depth("q") == 2


def test_shared_targets_are_bounded_and_the_oldest_is_dropped() -> None:
    client = Amqp10Dialogue()
    for number in range(SHARED_MAX + 2):
        client.declare(f"q{number}")
        client.attach_sender(f"/queues/q{number}", number)
    client.attach_sender("/queues/q0", 100)
    client.attach_sender(f"/queues/q{SHARED_MAX + 1}", 101)
    links = client.session().links.by_handle
    found = {handle: link.target for handle, link in links.items() if isinstance(link, IncomingLink)}
    assert found[100] is not found[0], "it was the oldest"
    assert found[101] is found[SHARED_MAX + 1]


def route_of(found: Target, content: bytes) -> Route:
    sections = Sections()
    padded = b"padding" + content  # Sections need not begin at 0.
    sections.walk(padded, 7, len(padded))
    return found.route_of(content, padded, sections)


def properties(**fields: object) -> bytes:
    return encode(spec.PROPERTIES, **fields) + data_section(b"x")


@pytest.fixture
def vhost() -> VirtualHost:
    return a_vhost()


def test_priority_and_time_to_live_make_a_separate_route(vhost: VirtualHost) -> None:
    vhost.declare_queue("q", {}, False, False, None, None)
    found = target(vhost, "/queues/q")
    route = route_of(found, header_octets(False, 7, 2_500) + data_section(b"x"))
    assert (route.envelope.priority, route.envelope.ttl_s) == (7, 2.5)
    assert route_of(found, data_section(b"x")) is found.fixed_route()


def test_message_without_a_priority_counts_as_4(vhost: VirtualHost) -> None:
    vhost.declare_queue("q", {"x-max-priority": 9}, False, False, None, None)
    assert route_of(target(vhost, "/queues/q"), data_section(b"x")).envelope.priority == 4


def test_route_follows_the_topology(vhost: VirtualHost) -> None:
    found = target(vhost, "/exchanges/amq.fanout/any")
    route = found.fixed_route()
    assert route.queues == []
    queue = vhost.declare_queue("q", {}, False, False, None, None)
    vhost.bind("amq.fanout", queue, None, "", {})
    route = found.fixed_route()
    assert route.queues == [queue]


def test_subject_is_the_routing_key_of_an_exchange(vhost: VirtualHost) -> None:
    queue = vhost.declare_queue("q", {}, False, False, None, None)
    vhost.bind("amq.direct", queue, None, "red", {})
    found = target(vhost, "/exchanges/amq.direct")
    assert route_of(found, properties(subject="red")).queues == [queue]
    assert route_of(found, properties(subject="blue")).queues == []
    assert route_of(found, data_section(b"x")).envelope.routing_key == ""
    with pytest.raises(InvalidField):
        route_of(found, properties(subject="x" * 256))


@pytest.mark.parametrize("address", ["/exchanges/x/hidden", "/exchanges/x", ""])
def test_topic_keys_are_checked_on_routes_from_before_the_exchange_was_a_topic(address: str) -> None:
    broker = make_driver().broker
    vhost = broker.vhosts["/"]
    vhost.declare_exchange("x", "fanout", {}, False, False, False)
    broker.access.set_topic_permission("guest", "/", "x", TopicPermission("^open$", ""))
    access = ConnectionAccess(UserRules(broker.access, "guest"), "guest", "/")
    found = target_of(vhost, access, Amqp10Format(), parse_target(address, ()), SharedTargets())
    message = properties(to="/exchanges/x", subject="hidden")
    assert route_of(found, message).envelope.routing_key == "hidden"
    vhost.delete_exchange("x", False)
    vhost.declare_exchange("x", "topic", {}, False, False, False)
    with pytest.raises(AccessRefused, match="write access to topic 'hidden'"):
        route_of(found, message)


def test_anonymous_terminus_takes_the_address_of_each_message(vhost: VirtualHost) -> None:
    queue = vhost.declare_queue("a/b", {}, False, False, None, None)
    vhost.bind("amq.direct", queue, None, "red", {})
    found = target(vhost, "")
    assert route_of(found, properties(to="/queues/a%2Fb")).queues == [queue]
    assert route_of(found, properties(to="/exchanges/amq.direct", subject="red")).queues == [queue]
    assert route_of(found, properties(to="/exchanges/amq.direct", subject="blue")).queues == []
    assert found.unroutable is Unroutable.RELEASED
    for to, error in (("/queues/none", NotFound), ("/queue/former", InvalidField), (None, InvalidField)):
        with pytest.raises(error):
            route_of(found, properties(to=to))


def test_routes_of_many_subjects_are_bounded(vhost: VirtualHost) -> None:
    found = target(vhost, "/exchanges/amq.topic")
    first = route_of(found, properties(subject="0"))
    for number in range(1, 300):
        route_of(found, properties(subject=str(number)))
    assert route_of(found, properties(subject="299")) is route_of(found, properties(subject="299"))
    assert route_of(found, properties(subject="0")) is not first


def test_application_properties_decide_at_an_exchange_of_headers(vhost: VirtualHost) -> None:
    queue = vhost.declare_queue("q", {}, False, False, None, None)
    vhost.bind("amq.headers", queue, None, "", {"x-match": "all", "colour": "red"})
    found = target(vhost, "/exchanges/amq.headers/any")
    assert found.fixed_route() is None
    for colour, expected in (("red", [queue]), ("blue", [])):
        section = b"\x00\x53\x74" + encode_value({"colour": colour})
        assert route_of(found, section + data_section(b"x")).queues == expected


def test_application_properties_decide_where_chance_leads_to_an_exchange_of_headers(vhost: VirtualHost) -> None:
    queues = [vhost.declare_queue(name, {}, False, False, None, None) for name in ("direct", "red")]
    vhost.declare_exchange("r", "x-random", {}, False, False, False)
    vhost.bind("r", queues[0], None, "", {})
    vhost.bind("r", None, vhost.exchanges["amq.headers"], "", {})
    vhost.bind("amq.headers", queues[1], None, "", {"colour": "red"})
    found = target(vhost, "/exchanges/r/any")
    section = b"\x00\x53\x74" + encode_value({"colour": "red"})
    reached = [route_of(found, section + data_section(b"x")).queues for _ in range(40)]
    assert [len(each) for each in reached] == [1] * 40
    assert {each[0] for each in reached} == set(queues)


def test_additional_routing_keys_are_an_annotation(vhost: VirtualHost) -> None:
    queues = [vhost.declare_queue(name, {}, False, False, None, None) for name in ("q", "copy")]
    annotations = b"\x00\x53\x72" + encode_value({Symbol("x-cc"): ["copy"]})
    assert route_of(target(vhost, "/queues/q"), annotations + data_section(b"x")).queues == queues


@pytest.mark.parametrize("value", ["copy", 7, ["copy", 7], {"copy": "copy"}])
def test_additional_routing_keys_of_another_type_are_refused(value: object) -> None:
    client = sender()
    annotations = b"\x00\x53\x72" + encode_value({Symbol("x-cc"): value})
    (rejected,) = client.say(client.transfer(annotations + data_section(b"x")))
    assert condition(rejected) == "amqp:invalid-field"
    assert "x-cc" in str(rejected.field("state"))
    assert client.depth("q") == 0
    other = b"\x00\x53\x72" + encode_value({Symbol("x-ccs"): value})
    assert condition(client.say(client.transfer(other + data_section(b"x")))[0]) is None


@pytest.mark.parametrize("address", ["/queues/q", ""])
def test_user_id_must_be_the_user(address: str, vhost: VirtualHost) -> None:
    vhost.declare_queue("q", {}, False, False, None, None)
    found = target(vhost, address)
    assert route_of(found, properties(user_id=b"guest", to="/queues/q")).queues
    with pytest.raises(AccessRefused):
        route_of(found, properties(user_id=b"root", to="/queues/q"))


def test_unroutable_messages_of_a_topic_are_accepted() -> None:
    assert target(a_vhost(), "amq.topic/news", "topic").unroutable is Unroutable.ACCEPTED
    assert target(a_vhost(), "/exchanges/amq.topic/news").unroutable is Unroutable.RELEASED


def test_address_of_a_missing_node_is_refused() -> None:
    with pytest.raises(BrokerError, match="no queue 'none'"):
        target(a_vhost(), "none")


def test_default_priority_of_a_message_orders_the_queue_and_is_not_sent() -> None:
    client = sender(x_max_priority=9)
    for priority in (3, None, 5, 0):
        header = b"" if priority is None else header_octets(False, priority)
        client.say(client.transfer(header + data_section(b"none" if priority is None else bytes([priority]))))
    sent = delivered(client.attach_receiver("/queues/q", credit=9))
    assert [message[-1] for message in sent] == [5, ord("e"), 3, 0]
    assert "priority" not in decode_message(sent[1]).header


def test_message_is_persistent_with_a_store_unless_the_header_says_no() -> None:
    driver = journaled()
    queue = driver.broker.vhosts["/"].declare_queue("q", {}, True, False, None, None)
    client = Amqp10Dialogue(driver)
    client.attach_sender("/queues/q")
    transient = b"\x00\x53\x70\xc0\x02\x01\x42"
    for header in (b"", header_octets(True), header_octets(True, 7), transient):
        client.say(client.transfer(header + data_section(b"x")))
    assert [message.envelope.persistent for message in queue.ready_queue.messages()] == [True, True, True, False]


def test_selector_of_a_binding_sees_the_fields_of_each_message(vhost: VirtualHost) -> None:
    queue = vhost.declare_queue("q", {}, False, False, None, None)
    vhost.bind("amq.topic", queue, None, "#", {SELECTOR: "JMSType = 'order' AND JMSPriority > 4"})
    found = target(vhost, "/exchanges/amq.topic/k")
    assert found.fixed_route() is None
    assert route_of(found, header_octets(False, 7, -1) + properties(subject="order")).queues == [queue]
    assert route_of(found, header_octets(False, 3, -1) + properties(subject="order")).queues == []
    assert route_of(found, data_section(b"x")).queues == []
