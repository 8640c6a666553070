"""Dynamic nodes: the four lifetime policies, on sources and targets, queues and topics."""

from __future__ import annotations

import pytest

from penstock.core.vhost import VirtualHost
from penstock.flow.pool import PoolHolder
from penstock.protocols.amqp10.dynamic_nodes import DynamicNode
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, as_described, composite
from penstock.wire.amqp10.values import UINT, Array, Symbol, Typed
from tests.support.amqp10_dialogue import Amqp10Dialogue, Heard, condition, data_section, names, performative
from tests.support.broker_fixture import House
from tests.support.paging_broker import FEW, settled


def dynamic(code: int, policy: int | None = None, *capabilities: str, **properties: object) -> Composite:
    """Return a dynamic terminus with a lifetime policy."""
    found: dict[object, object] = {Symbol(name.replace("_", "-")): value for name, value in properties.items()}
    if policy is not None:
        found[Symbol("lifetime-policy")] = as_described(composite(policy))
    fields = {"dynamic": True, "dynamic_node_properties": found or None, "capabilities": list(capabilities)}
    return composite(code, **fields)


def address_of(attached: Heard, terminus: str) -> str:
    found = attached.performative.inner(terminus)
    assert found.flag("dynamic")
    return found.text("address")


def nodes_of(client: Amqp10Dialogue) -> list[str]:
    vhost: VirtualHost = client.vhost
    return sorted(each for each in [*vhost.queues, *vhost.exchanges] if each.startswith(("amq.dyn", "dyn-")))


def sender(client: Amqp10Dialogue, handle: int, target: Composite) -> str:
    return address_of(client.attach_sender(None, handle, target=target)[0], "target")


@pytest.fixture
def client() -> Amqp10Dialogue:
    return Amqp10Dialogue()


def test_temporary_queue_takes_requests_of_other_clients_and_ends_with_the_link(client: Amqp10Dialogue) -> None:
    address = address_of(client.attach_receiver(None, 1, source=dynamic(spec.SOURCE))[0], "source")
    other = Amqp10Dialogue(client.driver)
    assert names(other.attach_sender(address)) == ["attach", "flow"]
    other.say(other.transfer(data_section(b"answer")))
    (sent,) = client.flow(1, 1)
    assert sent.payload.endswith(b"answer")
    _, refused = other.attach_receiver(address, 5)
    assert condition(refused) == "amqp:resource-locked"
    client.detach(1)
    assert nodes_of(client) == []


@pytest.mark.parametrize("end", [performative(spec.END), performative(spec.CLOSE)])
def test_node_of_delete_on_close_ends_with_the_session(end: bytes, client: Amqp10Dialogue) -> None:
    sender(client, 0, dynamic(spec.TARGET, spec.DELETE_ON_CLOSE))
    assert len(nodes_of(client)) == 1
    client.say(end)
    assert nodes_of(client) == []


def test_delete_on_no_links_waits_for_the_last_link(client: Amqp10Dialogue) -> None:
    address = sender(client, 0, dynamic(spec.TARGET, spec.DELETE_ON_NO_LINKS))
    client.attach_receiver(address, 1)
    client.attach_sender(address, 2)
    for handle, left in ((0, 1), (1, 1), (2, 0)):
        client.detach(handle)
        client.listen(client.driver.broker.now + 2)
        assert len(nodes_of(client)) == left


def test_delete_on_no_messages_waits_until_the_queue_is_empty(client: Amqp10Dialogue) -> None:
    address = sender(client, 0, dynamic(spec.TARGET, spec.DELETE_ON_NO_MESSAGES))
    client.say(client.transfer(data_section(b"x")))
    client.detach(0)
    client.listen(client.driver.broker.now + 2)
    assert len(nodes_of(client)) == 1
    client.attach_receiver(address, 1, credit=1)
    client.settle(0, 0, composite(spec.ACCEPTED))
    (detached,) = client.listen(client.driver.broker.now + 2)
    assert condition(detached) == "amqp:resource-deleted"
    assert nodes_of(client) == []


def test_delete_on_no_links_or_messages_waits_for_both(client: Amqp10Dialogue) -> None:
    address = sender(client, 0, dynamic(spec.TARGET, spec.DELETE_ON_NO_LINKS_OR_MESSAGES))
    client.say(client.transfer(data_section(b"x")))
    client.detach(0)
    client.attach_receiver(address, 1, credit=1)
    client.settle(0, 0, composite(spec.ACCEPTED))
    client.listen(client.driver.broker.now + 2)
    assert len(nodes_of(client)) == 1
    client.detach(1)
    client.listen(client.driver.broker.now + 2)
    assert nodes_of(client) == []


def test_temporary_topic_is_an_exchange(client: Amqp10Dialogue) -> None:
    address = sender(client, 0, dynamic(spec.TARGET, None, "temporary-topic"))
    topic = composite(spec.SOURCE, address=address, capabilities=["topic"])
    for handle in (1, 2):
        client.attach_receiver(None, handle, credit=1, source=topic)
    heard = client.say(client.transfer(data_section(b"news")))
    assert names(heard).count("transfer") == 2
    client.detach(0)
    assert nodes_of(client) == []


def test_node_properties_are_arguments_of_the_queue(client: Amqp10Dialogue) -> None:
    sender(client, 0, dynamic(spec.TARGET, None, capacity_messages=7))
    (name,) = nodes_of(client)
    assert client.vhost.queues[name].thresholds.capacity.messages == 7


def test_dynamic_terminus_with_an_address_is_refused(client: Amqp10Dialogue) -> None:
    target = composite(spec.TARGET, address="/queues/q", dynamic=True)
    _, detached = client.attach_sender(None, target=target)
    assert condition(detached) == "amqp:invalid-field"
    assert nodes_of(client) == []


@pytest.mark.parametrize("name", ["lifetime-policy", "supported-dist-modes"])
def test_node_property_of_a_wrong_type_is_refused(name: str, client: Amqp10Dialogue) -> None:
    source = composite(spec.SOURCE, dynamic=True, dynamic_node_properties={Symbol(name): Typed(UINT, 7)})
    attached, detached = client.attach_receiver(None, source=source)
    assert (attached.field("source"), condition(detached)) == (None, "amqp:invalid-field")


def test_distribution_modes_of_a_node_may_be_single_or_several() -> None:
    for modes in (Symbol("move"), Array("symbol", ["move", "copy"])):
        client = Amqp10Dialogue()
        properties = {Symbol("supported-dist-modes"): modes}
        source = composite(spec.SOURCE, dynamic=True, dynamic_node_properties=properties)
        assert names(client.attach_receiver(None, source=source)) == ["attach"]


LINKS_OR_MESSAGES = spec.DELETE_ON_NO_LINKS_OR_MESSAGES
POLICIES = [spec.DELETE_ON_CLOSE, spec.DELETE_ON_NO_LINKS, spec.DELETE_ON_NO_MESSAGES, LINKS_OR_MESSAGES]
STATES: dict[str, list[int]] = {
    "idle": [],
    "ready message": [spec.DELETE_ON_NO_MESSAGES, LINKS_OR_MESSAGES],
    "unsettled message of another link": [spec.DELETE_ON_NO_LINKS, spec.DELETE_ON_NO_MESSAGES, LINKS_OR_MESSAGES],
    "receiver": [spec.DELETE_ON_NO_LINKS, LINKS_OR_MESSAGES],
    "browser": [spec.DELETE_ON_NO_LINKS, LINKS_OR_MESSAGES],
    "sender": [spec.DELETE_ON_NO_LINKS, LINKS_OR_MESSAGES],
    "sender by a plain name": [spec.DELETE_ON_NO_LINKS, LINKS_OR_MESSAGES],
}
"""What a node has after the end of the link that created it, and the policies that keep it then."""


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("state", STATES)
def test_policy_decides_whether_a_node_outlives_the_creator(state: str, policy: int, client: Amqp10Dialogue) -> None:
    address = sender(client, 0, dynamic(spec.TARGET, policy))
    if "message" in state:
        client.put(b"x", settled=True)
    if state.startswith(("unsettled", "receiver")):
        client.attach_receiver(address, 1, credit=1)
    if state == "browser":
        client.attach_receiver(None, 1, source=composite(spec.SOURCE, address=address, distribution_mode="copy"))
    if state.startswith("sender"):
        client.attach_sender(address if state == "sender" else address.removeprefix("/queues/"), 2)
    client.detach(0)
    client.listen(client.driver.broker.now + 2)
    assert len(nodes_of(client)) == (policy in STATES[state])


@pytest.mark.parametrize("policy", [spec.DELETE_ON_NO_MESSAGES, LINKS_OR_MESSAGES])
def test_node_with_held_publishes_is_not_empty(policy: int) -> None:
    house = House("q")
    house.broker.gates.block("queue", "/", "q", "stocktaking")
    house.published("p", "q", 10)
    node = DynamicNode(house.vhost, house.vhost.queue("q"), None, policy, PoolHolder("u", "/"))
    assert not node.is_due(house.broker.work)
    house.broker.gates.unblock("queue", "/", "q")
    house.broker.run(1000)
    house.take("q")
    assert node.is_due(house.broker.work)


def test_node_with_messages_on_the_disk_is_not_empty() -> None:
    house = settled(20, **FEW)
    queue = house.queues["q"]
    while house.get("q") is not None:
        pass
    assert queue.messages == 0
    assert queue.depth_messages() > 0
    node = DynamicNode(house.vhost, queue, None, spec.DELETE_ON_NO_MESSAGES, PoolHolder("u", "/"))
    assert not node.is_due(house.broker.work)
