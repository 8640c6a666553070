"""Room that is set aside for credit: never overrun, never lost, shared by those who ask."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.publish.reservation import Reservation
from tests.support.broker_fixture import House


def test_a_grant_is_a_part_of_the_free_room_and_gets_smaller_with_it() -> None:
    house = House()
    house.queue("a", capacity_messages=100, capacity_bytes=1_000_000)
    reservation = Reservation(house.vhost.queues["a"], 1000)
    assert [int(reservation.grant(1000, 100.0)) for _ in range(5)] == [25, 19, 14, 11, 8]
    assert int(reservation.grant(2, 100.0)) == 2
    while reservation.grant(1000, 100.0):
        pass
    assert int(reservation.messages) == 100


def test_a_closed_gate_grants_nothing_and_what_is_given_back_is_free_for_who_waits() -> None:
    house = House()
    house.queue("a", capacity_messages=10, stop_messages=9, resume_messages=5)
    queue = house.vhost.queues["a"]
    reservation = Reservation(queue, 100)
    while reservation.grant(10, 100.0):
        pass
    producer = house.producer("p")
    house.publish(producer, "a", 100)
    assert len(producer.outbox) == 1, "all room is set aside"
    assert int(Reservation(queue, 100).grant(1, 100.0)) == 0
    reservation.give_back(100.0)
    house.broker.run(1000)
    assert not producer.outbox
    assert int(queue.reserved_messages) == int(queue.reserved_bytes) == 0
    for _ in range(9):
        house.publish(producer, "a", 100)
    assert not queue.gate.open
    assert int(reservation.grant(1, 100.0)) == 0


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["grant", "use", "back", "publish", "take"]), st.integers(0, 2), st.integers(1, 30)),
        max_size=80,
    )
)
def test_depth_and_reserved_together_never_pass_the_capacity(steps: list[tuple[str, int, int]]) -> None:
    house = House()
    house.queue("a", capacity_messages=20, capacity_bytes=2500)
    queue = house.vhost.queues["a"]
    holders = [Reservation(queue, charge) for charge in (50, 100, 200)]
    producers = [house.producer(f"p{number}") for number in range(3)]
    now = house.broker.now
    for what, number, amount in steps:
        holder = holders[number]
        if what == "grant":
            holder.grant(amount, now)
        elif what == "use" and holder.messages:
            holder.use(now)
            assert queue.fits(holder.charge), "whoever was granted credit finds room"
            house.publish_now("a", int(holder.charge))
        elif what == "back":
            holder.give_back(now)
        elif what == "publish":
            house.publish(producers[number], "a", amount * 10)
        else:
            house.take("a")
        house.broker.run(1000)
        assert int(queue.messages + queue.reserved_messages) <= 20
        assert int(queue.bytes + queue.reserved_bytes) <= 2500
        assert int(queue.reserved_messages) == sum(int(each.messages) for each in holders)
    for holder in holders:
        holder.give_back(now)
    house.broker.run(1000)
    while house.take("a"):
        pass
    assert not any(producer.outbox for producer in producers)
    assert (int(queue.messages), int(queue.bytes), int(queue.reserved_bytes)) == (0, 0, 0)
