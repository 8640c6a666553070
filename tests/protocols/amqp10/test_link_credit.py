"""Credit of incoming links: properties that set it, and those that say why it has ended.

Lanes of incoming links: what an attach asks and is answered, and the numbers of what is refused at once.
"""

from __future__ import annotations

import pytest

from penstock.driver.driver import BrokerDriver
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.values import Symbol, Typed
from tests.support import at_once
from tests.support.amqp10_dialogue import Amqp10Dialogue, Heard, condition, data_section, performative
from tests.support.driven_connection import drain


@pytest.fixture
def client() -> Amqp10Dialogue:
    return Amqp10Dialogue().declare("q")


def test_link_may_set_the_window_and_gets_the_effective_window(client: Amqp10Dialogue) -> None:
    attached, flow = client.attach_sender("/queues/q", properties={Symbol("credit-window-messages"): 10})
    assert attached.performative.mapping("properties")[Symbol("credit-window-messages")] == Typed("uint", 10)
    assert flow.field("link_credit") == 10
    _, detached = client.attach_sender("/queues/q", 1, properties={Symbol("credit-window-messages"): "many"})
    assert condition(detached) == "amqp:precondition-failed"


def test_link_may_lower_the_rates_and_gets_the_effective_rates(client: Amqp10Dialogue) -> None:
    attached, _ = client.attach_sender("/queues/q", properties={Symbol("producerMaxRate"): 10})
    assert attached.performative.mapping("properties")[Symbol("rate-messages")] == 10.0
    credit = client.credit_of()
    assert credit == 1
    at_once.set_named(client.driver.broker, "producer", "#", rate_messages=5, rate_bytes=1000)
    link = client.session(0).links.by_handle[0]
    limits = link.producer.rate.limits
    assert (limits.rate_messages, limits.rate_bytes) == (5.0, 1000.0), "the lower of each"
    at_once.set_named(client.driver.broker, "producer", "#", rate_messages=50)
    assert (link.producer.rate.limits.rate_messages, link.producer.rate.limits.refill_messages) == (10.0, 9.9)


WRONG = ({"producerMaxRate": 1.5}, {"rate-mesages": 5}, {"producerMaxRate": 5, "burst-bytes": 2})


@pytest.mark.parametrize("wrong", WRONG)
def test_link_with_wrong_rates_is_refused(wrong: dict[str, object], client: Amqp10Dialogue) -> None:
    given = {Symbol(name): value for name, value in wrong.items()}
    _, detached = client.attach_sender("/queues/q", properties=given)
    assert condition(detached) == "amqp:precondition-failed"


def test_link_whose_properties_are_refused_leaves_no_state_with_the_connection(client: Amqp10Dialogue) -> None:
    origin = client.connection.origin
    assert origin is not None
    for _ in range(3):
        _, detached = client.attach_sender("/queues/q", properties={Symbol("credit-window-messages"): "many"})
        assert condition(detached) == "amqp:precondition-failed"
        client.detach(0)
    assert not origin.producers


@pytest.mark.parametrize("octets", [2**64 - 1, 2**63, 1, 0, -1, "many"])
def test_sender_may_announce_any_size_of_messages(octets: object, client: Amqp10Dialogue) -> None:
    value = Typed("ulong", octets) if isinstance(octets, int) and octets >= 0 else octets
    attached, flow = client.attach_sender("/queues/q", properties={Symbol("penstock:message-bytes"): value})
    assert attached.name == "attach"
    assert flow.field("link_credit") in range(1, 65)


@pytest.mark.parametrize("at_once", [True, False])
def test_sender_learns_the_blocking_gate(at_once: bool) -> None:
    """If messages come one by one, the gate withholds outcomes before the credit ends."""
    client = Amqp10Dialogue().declare("q", capacity_messages=100)
    heard = client.attach_sender("/queues/q")
    while credit := client.credit_of():
        heard += client.put(*(b"x" for _ in range(credit if at_once else 1)))
    (told,) = [each for each in heard if each.name == "flow" and each.field("properties") is not None]
    properties = told.performative.mapping("properties")
    assert properties[Symbol("penstock:blocked-by")] == "queue 'q'"
    assert Symbol("penstock:retry-after") in properties
    assert told.field("link_credit") == 0


def named_gates(heard: list[Heard]) -> list[object]:
    """Return the gates that flows of links name."""
    flows = [each for each in heard if each.name == "flow" and each.field("properties") is not None]
    return [each.performative.mapping("properties")[Symbol("penstock:blocked-by")] for each in flows]


def test_sender_learns_the_next_blocking_gate_at_once_when_the_first_has_opened() -> None:
    client = Amqp10Dialogue()
    client.driver.begin(100.0)
    vhost = client.vhost
    for queue in ("a", "b"):
        client.declare(queue, capacity_messages=20)
        vhost.bind("amq.fanout", vhost.queue(queue), None, "", {})
    heard = client.attach_sender("/exchanges/amq.fanout")
    while credit := client.credit_of():
        heard += client.put(*[b"x"] * credit)
    assert named_gates(heard) == ["queue 'a'"]
    client.driver.begin(100.2)
    drain(client.driver, "a")
    assert named_gates(client.say()) == ["queue 'b'"]
    assert client.credit_of() == 0
    drain(client.driver, "b")
    assert named_gates(client.say()) == []
    assert client.credit_of() > 0


EXACT = {"desired_capabilities": ["penstock:exact-credit"]}


def test_exact_credit_is_offered_only_to_a_sender_with_a_single_target(client: Amqp10Dialogue) -> None:
    attached, _ = client.attach_sender("/queues/q", **EXACT)
    assert attached.performative.texts("offered_capabilities") == ["penstock:exact-credit"]
    plain, _ = client.attach_sender("/queues/q", 1)
    anonymous = client.attach_sender(None, 2, **EXACT)[0]
    for other in (plain, anonymous):
        assert other.performative.texts("offered_capabilities") == []


def test_exact_credit_ends_at_stop_with_outcomes_and_the_depth_in_the_flow() -> None:
    client = Amqp10Dialogue().declare("q", capacity_messages=2, stop_messages=1, resume_messages=0)
    client.attach_sender("/queues/q", **EXACT)
    assert client.credit_of() == 1
    heard = client.say(client.transfer(data_section(b"1")))
    assert [each for each in heard if each.name == "disposition"], "it is accepted at once"
    flow = [each for each in heard if each.name == "flow"][-1]
    assert flow.field("link_credit") == 0
    told = flow.performative.mapping("properties")
    assert told[Symbol("penstock:queue")] == "q"
    counts = [told[Symbol(f"penstock:{name}")] for name in ("depth", "stop", "resume", "capacity")]
    assert [each["messages"] for each in counts if isinstance(each, dict)] == [Typed("ulong", n) for n in (1, 1, 0, 2)]


def asked(number: int, **more: object) -> dict[Symbol, object]:
    """Return the properties that ask for a lane with an epoch."""
    wanted: dict[str, object] = {
        "producer": "p", "lane": "l", "epoch": Typed("ulong", number), "window": Typed("ulong", 100), **more
    }  # fmt: skip
    return {Symbol(f"penstock:{name}"): value for name, value in wanted.items()}


def answered(attached: Heard) -> tuple[object, object, object]:
    found = {str(key): value for key, value in attached.performative.mapping("properties").items()}
    values = [found.get(f"penstock:{name}") for name in ("known", "taken", "refused")]
    known, taken, refused = values
    numbers = [each.value for each in refused if isinstance(each, Typed)] if isinstance(refused, list) else refused
    return known, taken.value if isinstance(taken, Typed) else taken, numbers


def test_attach_is_answered_with_the_state_of_the_lane(driver: BrokerDriver) -> None:
    client = Amqp10Dialogue(driver).declare("q")
    assert answered(client.attach_sender("/queues/q", properties=asked(1))[0]) == (False, 0, [])
    for body in (b"1", b"2"):
        client.say(client.transfer(data_section(body)))
    client.say(client.transfer(b"no section"))  # It is rejected.
    client.say(client.transfer(data_section(b"4"), settled=True))  # It has no number, as it gets no outcome.
    client.say(client.transfer(data_section(b"5")))
    again = Amqp10Dialogue(driver, container_id="again")
    assert answered(again.attach_sender("/queues/q", properties=asked(2))[0]) == (True, 4, [3])
    assert [condition(each) for each in client.listen() if each.name == "detach"] == ["amqp:resource-locked"]
    assert client.depth("q") == 4


def test_unroutable_deliveries_have_numbers(driver: BrokerDriver) -> None:
    client = Amqp10Dialogue(driver)
    client.attach_sender("/exchanges/amq.direct/nowhere", properties=asked(1))
    heard = client.say(client.transfer(data_section(b"1")), client.transfer(data_section(b"2")))
    assert [each.name for each in heard if each.name == "disposition"]
    again = Amqp10Dialogue(driver, container_id="again")
    assert answered(again.attach_sender("/exchanges/amq.direct/nowhere", properties=asked(2))[0]) == (True, 2, [1, 2])


def test_link_without_a_lane_gets_no_lane_properties(client: Amqp10Dialogue) -> None:
    assert answered(client.attach_sender("/queues/q")[0]) == (None, None, None)


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"producer": 5}, "amqp:precondition-failed"),
        ({"lane": ""}, "amqp:precondition-failed"),
        ({"epoch": "1"}, "amqp:precondition-failed"),
        ({"window": Typed("ulong", 5000)}, "amqp:precondition-failed"),
    ],
)
def test_invalid_request_for_a_lane_is_refused(more: dict[str, object], code: str, client: Amqp10Dialogue) -> None:
    _, detached = client.attach_sender("/queues/q", properties=asked(1, **more))
    assert condition(detached) == code
    assert client.driver.broker.producer_lanes.count() == 0


def test_window_whose_answer_fits_no_frame_of_the_peer_is_refused() -> None:
    client = Amqp10Dialogue(max_frame_size=4096).declare("q")
    _, detached = client.attach_sender("/queues/q", properties=asked(1, window=Typed("ulong", 4000)))
    assert condition(detached) == "amqp:precondition-failed"
    assert answered(client.attach_sender("/queues/q", 1, properties=asked(1))[0]) == (False, 0, [])


@pytest.mark.parametrize("end", ["deletion", "detach", "close"])
def test_link_that_waits_for_credit_leaves_no_state_at_the_end(end: str) -> None:
    client = Amqp10Dialogue().declare("q", capacity_messages=2)
    client.attach_sender("/queues/q")
    client.put(b"x", b"x")
    waiting = client.driver.broker.credits._waiting
    assert [len(each.links) for each in waiting.values()] == [1]
    if end == "deletion":
        client.driver.broker.delete_queue(client.vhost.queues["q"])
    elif end == "detach":
        client.detach(0)
    else:
        client.say(performative(spec.CLOSE))
    client.listen()
    assert waiting == {}
