"""Delivery-ids by number: runs, wrap-around, and a model."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.protocols.amqp10.delivery_ids import DeliveryIds


def test_link_alone_on_its_session_has_one_range() -> None:
    ids = DeliveryIds()
    for number in range(1, 101):
        ids.add(number, number + 41)
    assert ids.ranges(1, 100) == [(42, 141)]
    assert ids.ranges(5, 5) == [(46, 46)]


def test_ids_wrap_around() -> None:
    ids = DeliveryIds()
    ids.add(1, 0xFFFFFFFF)
    ids.add(2, 0)
    assert ids.ranges(1, 2) == [(0xFFFFFFFF, 0)]


@given(st.lists(st.integers(1, 3), min_size=1, max_size=40), st.data())
def test_ranges_are_those_of_a_list(steps: list[int], data: st.DataObject) -> None:
    ids, expected, delivery_id = DeliveryIds(), {}, 0
    for number, step in enumerate(steps, 1):
        delivery_id += step
        ids.add(number, delivery_id)
        expected[number] = delivery_id
    first = data.draw(st.integers(1, len(steps)))
    last = data.draw(st.integers(first, len(steps)))
    ids.forget(first - 1)
    found = [each for begin, end in ids.ranges(first, last) for each in range(begin, end + 1)]
    assert found == [expected[number] for number in range(first, last + 1)]
