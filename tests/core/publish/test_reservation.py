"""Room reserved for credit: in each amount on the road, never overrun, released at once, shared."""

from __future__ import annotations

from penstock.core.gates.address_depth import AddressDepth, depth_of
from penstock.core.publish.credit_window import GRANT_MAX
from penstock.core.publish.reservation import Reservation
from penstock.describe.gate import gate_row
from penstock.settings.read import read_settings
from tests.support import at_once
from tests.support.broker_fixture import House, told
from tests.support.setting_values import in_bytes
from tests.support.topology import resolve

NOW = 100.0


def reserve(house: House, name: str, charge: int) -> Reservation:
    return Reservation([house.vhost.queues[name]], charge, [])


def use(house: House, reservation: Reservation, queue: str, charge: int) -> bool:
    """Use a credit, and put its message in if it has its room."""
    has_room = reservation.use(charge, house.broker.now)
    if has_room:
        house.publish_now(queue, charge)
    return has_room


def fanout(house: House, *names: str, limit: int = 0) -> AddressDepth | None:
    """Bind queues to amq.fanout, whose address has a limit in messages."""
    if limit:
        how = read_settings("address", "#", {"capacity-messages": limit})
        at_once.set_settings(house.broker, "address", "amq.fanout", how)
    for name in names:
        house.vhost.bind("amq.fanout", house.vhost.queues[name], None, "", {})
    return depth_of(house.vhost.exchanges["amq.fanout"].gates)


# Grants


def test_grant_is_a_part_of_the_free_room_and_shrinks_with_the_room(house: House) -> None:
    house.queue("a", capacity_messages=100, capacity_bytes=1_000_000)
    reservation = reserve(house, "a", 1000)
    assert [int(reservation.grant(1000, NOW)) for _ in range(5)] == [32, 32, 18, 9, 5]
    assert int(reservation.grant(2, NOW)) == 2
    while reservation.grant(1000, NOW):
        pass
    assert int(reservation.messages) == 100


def test_grant_with_very_much_room_is_bounded(house: House) -> None:
    house.queue("a", capacity_bytes=1 << 40)
    reservation = reserve(house, "a", 1000)
    assert int(reservation.grant(500, NOW)) == 500
    assert int(reservation.grant(10 * GRANT_MAX, NOW)) == GRANT_MAX
    assert int(reservation.grant(0, NOW)) == 0


def test_grant_comes_from_no_closed_gate_and_passes_waiters_only_in_turn(house: House) -> None:
    house.queue("a", capacity_messages=10, stop_messages=9, resume_messages=5)
    queue = house.vhost.queues["a"]
    reservation = reserve(house, "a", 100)
    while reservation.grant(10, NOW):
        pass
    producer = house.published("p", "a", 100)
    assert len(producer.outbox) == 1, "all room is reserved"
    assert int(reserve(house, "a", 100).grant(1, NOW)) == 0
    reservation.give_back(NOW)
    beside = reserve(house, "a", 100)
    assert int(beside.grant(1, NOW)) == 0, "the publish waits still"
    assert int(beside.grant(1, NOW, in_turn=True)) == 1
    beside.give_back(NOW)
    house.broker.run(1000)
    assert not producer.outbox
    assert int(queue.reserved.messages) == int(queue.reserved.bytes) == 0
    house.publish(producer, "a", 100, count=9)
    assert not queue.gate.open
    assert int(reservation.grant(1, NOW, in_turn=True)) == 0


def test_trial_reserves_a_part_of_the_free_room_and_at_least_a_message(house: House) -> None:
    house.queue("a", capacity_bytes=1000)
    reservation = reserve(house, "a", 10)
    assert [int(reservation.trial(50, charge, 4, NOW)) for charge in (1, 100, 250, 251, 5000)] == [250, 2, 1, 1, 1]
    fanout(house, "a", limit=4)
    everywhere = Reservation([house.vhost.queues["a"]], 10, house.vhost.exchanges["amq.fanout"].gates)
    assert int(everywhere.trial(50, 1, 4, NOW)) == 1


def test_larger_message_takes_the_room_of_later_messages_without_free_room(house: House) -> None:
    house.queue("a", capacity_bytes=1000)
    house.queue("b", capacity_bytes=600)
    fanout(house, "a", "b")
    queues = [house.vhost.queues["a"], house.vhost.queues["b"]]
    reservation = Reservation(queues, 100, [])
    while reservation.grant(10, NOW):
        pass
    assert (int(reservation.messages), int(queues[1].reserved.bytes)) == (6, 600)

    def use_both(charge: int) -> bool:
        has_room = reservation.use(charge, house.broker.now)
        if has_room:
            house.publish_now("a", charge)
            house.publish_now("b", charge)
        return has_room

    assert use_both(250)
    assert (int(reservation.messages), int(reservation.charge)) == (5, 70), "350 bytes for five"
    assert (int(queues[0].reserved.bytes), int(queues[1].reserved.bytes)) == (350, 350)
    assert not use_both(347), "each of the four keeps a byte at least"
    assert (int(reservation.messages), int(reservation.charge)) == (4, 70)
    assert use_both(300), "the room of the one that did not fit is free"
    assert (int(reservation.messages), int(reservation.charge)) == (3, 16)
    assert use_both(16)
    assert use_both(17)
    assert not use_both(18), "the last one has nobody after it"
    assert int(queues[1].reserved.bytes) == 0


def test_grants_share_the_free_room_among_senders(house: House) -> None:
    house.queue("a", capacity_messages=64)
    senders = [reserve(house, "a", 1) for _ in range(3)]
    for sender in senders:
        sender.grant(1000, NOW)
    assert [int(sender.messages) for sender in senders] == [32, 16, 8]


def test_operators_gate_stops_grants_at_every_part_of_the_road(house: House) -> None:
    house.queue("a")
    house.broker.gates.block("queue", "/", "a", "stocktaking")
    assert int(reserve(house, "a", 1).grant(1, NOW)) == 0


# Amounts


def test_reservation_counts_only_in_the_queue_and_sums_limit_the_grants(house: House) -> None:
    house.broker.gates.set_memory_capacity(in_bytes(2_000, 1_900, 1_800), 0)
    house.broker.gates.set_vhost_limit(house.vhost, in_bytes(1_000, 1_000, 1_000))
    host = house.broker.gates.vhosts["/"]
    for name in "ab":
        house.queue(name)
    reservation = reserve(house, "a", 100)
    assert int(reservation.grant(100, NOW)) == 5, "half of the 1,000 bytes in the virtual host"
    producer = house.published("p", "b", 100, count=10)
    assert (house.depth("b"), len(producer.outbox)) == (10, 0), "no room is kept there for the credit"
    assert host.gate.open
    assert int(reservation.grant(100, NOW)) == 0
    assert not use(house, reservation, "a", 100), "it waits for the virtual host as any publish"
    house.session.get(house.vhost.queues["b"], True, NOW)
    assert use(house, reservation, "a", 100)
    assert (int(host.bytes), int(reservation.messages)) == (1000, 3)


def test_credit_beyond_the_room_of_an_address_waits_like_any_publish(house: House) -> None:
    for name in "ab":
        house.queue(name, capacity_messages=20)
    depth = fanout(house, "a", "b", limit=8)
    assert depth is not None
    route = resolve(house.vhost, "amq.fanout")
    reservation = Reservation(route.queues, 10, route.gates)
    assert int(reservation.grant(3, NOW)) == 3
    producer = house.published("p", "", 10, "amq.fanout", count=8)
    assert (int(depth.messages), len(producer.outbox)) == (8, 0)
    assert not reservation.use(10, NOW)
    assert int(reservation.messages) == 2
    assert int(house.vhost.queues["a"].reserved.messages) == 2


def test_reservation_closes_no_gate_and_keeps_none_closed(house: House) -> None:
    house.queue("a", capacity_messages=10, stop_messages=5, resume_messages=2)
    queue = house.vhost.queues["a"]
    reservation = reserve(house, "a", 1)
    while reservation.grant(100, NOW):
        pass
    assert queue.gate.open
    for _ in range(6):
        assert use(house, reservation, "a", 1)
    assert not queue.gate.open
    house.take("a", count=4)
    assert queue.gate.open
    assert int(queue.reserved.messages) == 4


def test_fast_path_ends_where_reserved_room_begins(house: House) -> None:
    house.queue("a", capacity_messages=10, stop_messages=9)
    queue = house.vhost.queues["a"]
    assert int(queue.fast_path_max_messages) == 9
    reservation = reserve(house, "a", 1)
    reservation.grant(3, NOW)
    assert int(queue.fast_path_max_messages) == 7
    reservation.settle(2, NOW)
    assert (int(reservation.messages), int(queue.fast_path_max_messages)) == (1, 9)


def test_reservation_at_a_policy_that_never_holds_takes_no_room(house: House) -> None:
    house.queue("a", capacity_messages=10, overflow="drop-head")
    reservation = reserve(house, "a", 1)
    assert int(reservation.grant(50, NOW)) == 50
    assert int(house.vhost.queues["a"].reserved.messages) == 0
    assert not reservation.use(1, NOW)
    assert int(reservation.messages) == 49


def test_larger_message_takes_the_rest_from_free_room_or_goes_the_ordinary_way(house: House) -> None:
    house.queue("a", capacity_bytes=100)
    reservation = reserve(house, "a", 20)
    reservation.grant(1, NOW)
    beside = reserve(house, "a", 25)
    assert int(beside.grant(1, NOW)) == 1
    assert use(house, reservation, "a", 75)
    reservation.grant(1, NOW)
    assert not use(house, reservation, "a", 1), "nothing was granted: the queue is full"
    assert use(house, beside, "a", 25)
    assert int(house.vhost.queues["a"].bytes) == 100


# Released room


def test_deleted_queue_returns_all_room_and_the_credit_has_no_room_any_more(house: House) -> None:
    house.broker.gates.set_vhost_limit(house.vhost, in_bytes(1_000, 900, 800))
    house.queue("a")
    reservation = reserve(house, "a", 10)
    reservation.grant(5, NOW)
    house.broker.delete_queue(house.vhost.queues["a"])
    assert (int(reservation.messages), int(reservation.revoked)) == (0, 5)
    assert not reservation.use(10, NOW)
    assert int(reservation.revoked) == 4


def test_lowered_capacity_takes_the_same_part_from_every_sender(house: House) -> None:
    house.set("queue", "a", capacity_messages=100)
    house.queue("a")
    senders = [reserve(house, "a", 1) for _ in range(2)]
    senders[0].grant(10, NOW)
    senders[1].grant(20, NOW)
    house.publish_now("a", 1, count=5)
    house.set("queue", "a", capacity_messages=20)
    assert [(int(each.messages), int(each.revoked)) for each in senders] == [(5, 5), (10, 10)]
    house.set("queue", "a", capacity_messages=3)
    assert [(int(each.messages), int(each.revoked)) for each in senders] == [(0, 10), (0, 20)]


def test_changed_policy_takes_all_room_back(house: House) -> None:
    house.set("queue", "a", capacity_messages=100)
    house.queue("a")
    reservation = reserve(house, "a", 1)
    reservation.grant(10, NOW)
    house.set("queue", "a", capacity_messages=100, overflow="reject")
    assert (int(reservation.messages), int(reservation.revoked)) == (0, 10)


def test_released_room_admits_waiting_publishes(house: House) -> None:
    house.queue("a", capacity_bytes=100_000)
    reservation = reserve(house, "a", 50_000)
    assert int(reservation.grant(1, NOW)) == 1
    producer = house.published("p", "a", 60_000)
    assert producer.gate is house.vhost.queues["a"].gate
    reservation.give_back(NOW)
    house.broker.run(1000)
    assert told(producer) == [(1, 1, True)]


# Descriptions


def test_refusals_and_views_show_the_reserved_part(house: House) -> None:
    house.queue("a", capacity_messages=4, hold_deadline=5)
    queue = house.vhost.queues["a"]
    assert "reserved" not in gate_row(queue.gate, NOW)
    reservation = reserve(house, "a", 10)
    while reservation.grant(4, NOW):
        pass
    house.publish(house.producer("p"), "a", 10)
    assert gate_row(queue.gate, NOW)["reserved"] == {"messages": 4, "bytes": 40}
    assert queue.describe_cause(NOW) == (
        "0 of 4 messages, and 4 messages, 40 bytes reserved for credit: no room for the next message"
    )
    assert "holds 0 messages, 0 bytes, and 4 messages, 40 bytes reserved for credit (" in queue.describe_refusal()
