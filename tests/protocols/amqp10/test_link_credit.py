"""Credit of incoming links: properties that set it, and those that say why it has ended."""

from __future__ import annotations

import pytest

from penstock.core.settings import changes
from penstock.flow.work import finish
from penstock.protocols.amqp10.incoming_link import IncomingLink
from penstock.settings.read import read_settings
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.values import Symbol, Typed
from tests.support.amqp10_dialogue import Amqp10Dialogue, Heard, condition, data_section, performative
from tests.support.driven_connection import drain


def credit_of(client: Amqp10Dialogue) -> int:
    link = client.session(0).links.by_handle[0]
    assert isinstance(link, IncomingLink)
    return int(link.credit.credit)


def test_link_may_set_its_own_window_and_is_told_what_is_in_force() -> None:
    client = Amqp10Dialogue()
    client.declare("q")
    attached, flow = client.attach_sender("/queues/q", properties={Symbol("credit-window-messages"): 10})
    assert attached.performative.mapping("properties")[Symbol("credit-window-messages")] == Typed("uint", 10)
    assert flow.field("link_credit") == 10
    _, detached = client.attach_sender("/queues/q", 1, properties={Symbol("credit-window-messages"): "many"})
    assert condition(detached) == "amqp:precondition-failed"


def set_rates(client: Amqp10Dialogue, rates: dict[str, object]) -> None:
    finish(changes.set_settings_steps(client.driver.broker, "producer", "#", read_settings("producer", "#", rates)))


def test_link_may_lower_its_rates_and_is_told_what_is_in_force() -> None:
    client = Amqp10Dialogue()
    client.declare("q")
    attached, _ = client.attach_sender("/queues/q", properties={Symbol("producerMaxRate"): 10})
    assert attached.performative.mapping("properties")[Symbol("rate-messages")] == 10.0
    credit = credit_of(client)
    assert credit == 1
    set_rates(client, {"rate-messages": 5, "rate-bytes": 1000})
    link = client.session(0).links.by_handle[0]
    assert isinstance(link, IncomingLink)
    assert link.producer.rate is not None
    limits = link.producer.rate.limits
    assert (limits.rate_messages, limits.rate_bytes) == (5.0, 1000.0), "the lower of each"
    set_rates(client, {"rate-messages": 50})
    assert (link.producer.rate.limits.rate_messages, link.producer.rate.limits.refill_messages) == (10.0, 9.9)


WRONG = ({"producerMaxRate": 1.5}, {"rate-mesages": 5}, {"producerMaxRate": 5, "burst-bytes": 2})


@pytest.mark.parametrize("wrong", WRONG)
def test_link_with_wrong_rates_is_refused(wrong: dict[str, object]) -> None:
    client = Amqp10Dialogue()
    client.declare("q")
    given = {Symbol(name): value for name, value in wrong.items()}
    _, detached = client.attach_sender("/queues/q", properties=given)
    assert condition(detached) == "amqp:precondition-failed"


def test_link_whose_properties_are_refused_leaves_nothing_with_its_connection() -> None:
    client = Amqp10Dialogue()
    client.declare("q")
    origin = client.connection.origin
    assert origin is not None
    for _ in range(3):
        _, detached = client.attach_sender("/queues/q", properties={Symbol("credit-window-messages"): "many"})
        assert condition(detached) == "amqp:precondition-failed"
        client.say(performative(spec.DETACH, handle=0, closed=True))
    assert not origin.producers


@pytest.mark.parametrize("octets", [2**64 - 1, 2**63, 1, 0, -1, "many"])
def test_sender_may_say_any_size_of_its_messages(octets: object) -> None:
    client = Amqp10Dialogue()
    client.declare("q")
    value = Typed("ulong", octets) if isinstance(octets, int) and octets >= 0 else octets
    attached, flow = client.attach_sender("/queues/q", properties={Symbol("penstock:message-bytes"): value})
    assert attached.name == "attach"
    assert flow.field("link_credit") in range(1, 65)


@pytest.mark.parametrize("at_once", [True, False])
def test_sender_learns_which_gate_blocks_it(at_once: bool) -> None:
    """If messages come one by one, the gate withholds outcomes before the credit ends."""
    client = Amqp10Dialogue()
    client.declare("q", capacity_messages=100)
    heard = client.attach_sender("/queues/q")
    while credit := credit_of(client):
        heard += client.say(*(client.transfer(data_section(b"x")) for _ in range(credit if at_once else 1)))
    (told,) = [each for each in heard if each.name == "flow" and each.field("properties") is not None]
    properties = told.performative.mapping("properties")
    assert properties[Symbol("penstock:blocked-by")] == "queue 'q'"
    assert Symbol("penstock:retry-after") in properties
    assert told.field("link_credit") == 0


def named_gates(heard: list[Heard]) -> list[object]:
    """Return the gates that flows of links name."""
    flows = [each for each in heard if each.name == "flow" and each.field("properties") is not None]
    return [each.performative.mapping("properties")[Symbol("penstock:blocked-by")] for each in flows]


def test_sender_learns_at_once_which_gate_blocks_it_when_the_first_has_opened() -> None:
    client = Amqp10Dialogue()
    client.driver.begin(100.0)
    vhost = client.driver.broker.vhosts["/"]
    for queue in ("a", "b"):
        client.declare(queue, capacity_messages=20)
        vhost.bind("amq.fanout", vhost.queue(queue), None, "", {})
    heard = client.attach_sender("/exchanges/amq.fanout")
    while credit := credit_of(client):
        heard += client.say(*(client.transfer(data_section(b"x")) for _ in range(credit)))
    assert named_gates(heard) == ["queue 'a'"]
    client.driver.begin(100.2)
    drain(client.driver, "a")
    assert named_gates(client.say()) == ["queue 'b'"]
    assert credit_of(client) == 0
    drain(client.driver, "b")
    assert named_gates(client.say()) == []
    assert credit_of(client) > 0


EXACT = {"desired_capabilities": ["penstock:exact-credit"]}


def test_exact_credit_is_offered_to_a_sender_with_one_target_only() -> None:
    client = Amqp10Dialogue()
    client.declare("q")
    attached, _ = client.attach_sender("/queues/q", **EXACT)
    assert attached.performative.texts("offered_capabilities") == ["penstock:exact-credit"]
    plain, _ = client.attach_sender("/queues/q", 1)
    anonymous = client.attach_sender(None, 2, **EXACT)[0]
    for other in (plain, anonymous):
        assert other.performative.texts("offered_capabilities") == []


def test_exact_credit_ends_at_stop_with_outcomes_and_the_depth_in_the_flow() -> None:
    client = Amqp10Dialogue()
    client.declare("q", capacity_messages=2, stop_messages=1, resume_messages=0)
    client.attach_sender("/queues/q", **EXACT)
    assert credit_of(client) == 1
    heard = client.say(client.transfer(data_section(b"1")))
    assert [each for each in heard if each.name == "disposition"], "it is accepted at once"
    flow = [each for each in heard if each.name == "flow"][-1]
    assert flow.field("link_credit") == 0
    told = flow.performative.mapping("properties")
    assert told[Symbol("penstock:queue")] == "q"
    counts = [told[Symbol(f"penstock:{name}")] for name in ("depth", "stop", "resume", "capacity")]
    assert [each["messages"] for each in counts if isinstance(each, dict)] == [Typed("ulong", n) for n in (1, 1, 0, 2)]
