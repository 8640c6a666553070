"""Side lanes of the anonymous terminus: one full target stops no messages to others."""

from __future__ import annotations

import pytest

from penstock.protocols.amqp10.side_lanes import LANES_MAX
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite, encode_composite
from tests.support.amqp10_dialogue import Amqp10Dialogue, Heard, condition, data_section, performative, transfers

FULL_AT = 2
DEADLINE_S = 5.0


def to(queue: str, body: bytes = b"x") -> bytes:
    return encode_composite(composite(spec.PROPERTIES, to=f"/queues/{queue}")) + data_section(body)


def anonymous(*queues: str, **attach: object) -> Amqp10Dialogue:
    client = Amqp10Dialogue()
    client.driver.begin(100.0)
    for queue in (*queues, "free"):
        client.declare(queue, capacity_messages=FULL_AT, hold_deadline=DEADLINE_S)
    client.attach_sender(None, 0, **attach)
    return client


def outcomes(heard: list[Heard]) -> dict[int, int]:
    """Return the codes of outcomes by delivery-id."""
    found: dict[int, int] = {}
    for each in heard:
        if each.name == "disposition":
            first = each.performative.number("first")
            state = each.performative.inner("state")
            assert state is not None
            for number in range(first, each.performative.number("last", first) + 1):
                assert number not in found, "each has one outcome"
                found[number] = state.code
    return found


def send(client: Amqp10Dialogue, *queues: str, **fields: object) -> list[Heard]:
    return client.say(*(client.transfer(to(queue, b"%d" % n), **fields) for n, queue in enumerate(queues)))


def bodies(client: Amqp10Dialogue, queue: str, handle: int) -> list[bytes]:
    return [each.payload[-1:] for each in transfers(client.attach_receiver(f"/queues/{queue}", handle, credit=100))]


@pytest.mark.parametrize("waiting", [1, 2, 6])
def test_message_to_another_target_passes_waiting_messages(waiting: int) -> None:
    client = anonymous("full")
    found = outcomes(send(client, *["full"] * (FULL_AT - 1 + waiting), "free"))
    assert found[FULL_AT - 1 + waiting] == spec.ACCEPTED
    assert FULL_AT - 1 not in found, "its confirm is withheld"
    assert (client.depth("full"), client.depth("free")) == (min(FULL_AT, FULL_AT - 1 + waiting), 1)


@pytest.mark.parametrize("mode", [{}, {"rcv_settle_mode": 1}, {"snd_settle_mode": 1}])
def test_waiting_messages_pass_in_the_order_per_target(mode: dict[str, object]) -> None:
    client = anonymous("a", "b", **mode)
    settled = {"settled": True} if "snd_settle_mode" in mode else {}
    found = outcomes(send(client, *["a", "b", "free"] * 2, *["a", "b"] * 2, **settled))
    first = bodies(client, "a", 1)
    heard = [each for number in range(3) for each in client.settle(number, number, composite(spec.ACCEPTED))]
    found |= outcomes(heard)
    assert first + [each.payload[-1:] for each in transfers(heard)] == [b"0", b"3", b"6", b"8"]
    assert client.depth("b") == FULL_AT
    for number in () if settled else (0, 3):
        assert found[number] == spec.ACCEPTED


def test_credit_continues_while_messages_to_a_full_target_wait() -> None:
    client = anonymous("full")
    send(client, *["full"] * 4)
    client.attach_receiver("/queues/free", 1, credit=100_000, snd_settle_mode=1)
    for _ in range(500):
        assert client.credit_of() > 0
        assert spec.ACCEPTED in outcomes(send(client, "free")).values()
    assert client.depth("full") == FULL_AT


def test_messages_that_wait_are_refused_at_their_deadlines() -> None:
    client = anonymous("a", "b")
    send(client, *["a"] * 3, *["b"] * 3)
    client.driver.begin(102.0)
    send(client, "free")
    heard = client.listen(100.0 + DEADLINE_S + 0.1)
    rejected = [each for each in heard if condition(each) == "amqp:resource-limit-exceeded"]
    assert sorted(each.performative.number("first") for each in rejected) == [2, 5]


def test_refusal_that_cannot_be_heard_detaches_the_link() -> None:
    client = anonymous("a", "b", source=composite(spec.SOURCE, outcomes=["amqp:accepted:list"]))
    send(client, *["a"] * 3, *["b"] * 3)
    heard = client.listen(100.0 + DEADLINE_S + 0.1)
    assert [each.name for each in heard if each.name == "detach"] == ["detach"]


def test_more_full_targets_than_lanes_lose_no_message() -> None:
    names = [f"full-{number}" for number in range(LANES_MAX + 6)]
    client = anonymous(*names)
    found: dict[int, int] = {}
    for name in names:
        found |= outcomes(send(client, *[name] * 3))
    assert client.session().endpoint.side_lanes == LANES_MAX
    for number, name in enumerate(names, 1):
        found |= outcomes(client.attach_receiver(f"/queues/{name}", number, credit=100, snd_settle_mode=1))
    found |= outcomes(client.listen())
    assert found == dict.fromkeys(range(3 * len(names)), spec.ACCEPTED)
    assert all(client.depth(name) == 0 for name in names)


def test_lane_is_used_again_for_another_target() -> None:
    names = [f"full-{number}" for number in range(10)]
    client = anonymous("main", *names)
    send(client, *["main"] * 3)
    for number, name in enumerate(names, 1):
        send(client, *[name] * 3)
        client.attach_receiver(f"/queues/{name}", number, credit=100, snd_settle_mode=1)
        assert client.depth(name) == 0
    assert client.session().endpoint.side_lanes == 1


@pytest.mark.parametrize("end", ["detach", "end", "close"])
def test_end_of_the_link_gives_back_lanes_and_budget(end: str) -> None:
    client = anonymous("a", "b")
    send(client, *["a"] * 4, *["b"] * 4)
    endpoint, budget = client.session().endpoint, client.connection.pausing.budget
    assert (endpoint.side_lanes, budget.messages) == (1, 4)
    if end == "detach":
        client.detach(0)
    else:
        client.say(performative(spec.END if end == "end" else spec.CLOSE))
    client.listen()
    assert (endpoint.side_lanes, budget.messages) == (0, 0)
    assert (client.depth("a"), client.depth("b")) == (FULL_AT, FULL_AT)


def test_publisher_listing_has_the_lanes() -> None:
    client = anonymous("a", "b")
    send(client, *["a"] * 4, *["b"] * 4)
    assert [producer.name.rpartition("/")[2] for producer in client.session().producers()] == ["s0", "1"]
