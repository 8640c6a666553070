"""Lanes of incoming links: what an attach asks and is answered, and the numbers of what is refused at once."""

from __future__ import annotations

import pytest

from penstock.wire.amqp10.values import Symbol, Typed
from tests.support.amqp10_dialogue import Amqp10Dialogue, Heard, condition, data_section
from tests.support.driven_connection import make_driver


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


def test_attach_is_answered_with_what_is_decided_of_the_lane() -> None:
    driver = make_driver()
    client = Amqp10Dialogue(driver)
    client.declare("q")
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


def test_unroutable_deliveries_have_their_numbers() -> None:
    driver = make_driver()
    client = Amqp10Dialogue(driver)
    client.attach_sender("/exchanges/amq.direct/nowhere", properties=asked(1))
    heard = client.say(client.transfer(data_section(b"1")), client.transfer(data_section(b"2")))
    assert [each.name for each in heard if each.name == "disposition"]
    again = Amqp10Dialogue(driver, container_id="again")
    assert answered(again.attach_sender("/exchanges/amq.direct/nowhere", properties=asked(2))[0]) == (True, 2, [1, 2])


def test_link_that_asks_for_no_lane_is_told_of_none() -> None:
    client = Amqp10Dialogue()
    client.declare("q")
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
def test_invalid_request_for_a_lane_is_refused(more: dict[str, object], code: str) -> None:
    client = Amqp10Dialogue()
    client.declare("q")
    _, detached = client.attach_sender("/queues/q", properties=asked(1, **more))
    assert condition(detached) == code
    assert client.driver.broker.producer_lanes.count() == 0


def test_window_whose_answer_fits_no_frame_of_the_peer_is_refused() -> None:
    client = Amqp10Dialogue(max_frame_size=4096)
    client.declare("q")
    _, detached = client.attach_sender("/queues/q", properties=asked(1, window=Typed("ulong", 4000)))
    assert condition(detached) == "amqp:precondition-failed"
    assert answered(client.attach_sender("/queues/q", 1, properties=asked(1))[0]) == (False, 0, [])
