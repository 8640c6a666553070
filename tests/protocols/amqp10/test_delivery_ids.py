"""Delivery-ids by number: runs, wrap-around, and a model.

Accepted deliveries: neighbours become one range, also where the ids begin again at 0.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from penstock.protocols.amqp10.delivery_ids import AcceptedRanges, DeliveryIds, SentIds
from penstock.wire.amqp10.composite import decode_performative
from tests.support.frame_splitter import FrameSplitter


def pairs(ids: DeliveryIds, first: int, last: int) -> list[tuple[int, int]]:
    return [(int(each.first), int(each.last)) for each in ids.ranges(first, last)]


def test_link_alone_on_a_session_has_a_single_range() -> None:
    ids = DeliveryIds()
    for number in range(1, 101):
        ids.add(number, number + 41)
    assert pairs(ids, 1, 100) == [(42, 141)]
    assert pairs(ids, 5, 5) == [(46, 46)]


def test_ids_wrap_around() -> None:
    ids = DeliveryIds()
    ids.add(1, 0xFFFFFFFF)
    ids.add(2, 0)
    assert pairs(ids, 1, 2) == [(0xFFFFFFFF, 0)]


def test_range_has_a_single_settle_mode() -> None:
    ids = DeliveryIds()
    for number in range(1, 5):
        ids.add(number, number, number == 3)
    assert [(each.first, each.last, each.second) for each in ids.ranges(1, 4)] == [
        (1, 2, False),
        (3, 3, True),
        (4, 4, False),
    ]


def test_runs_whose_outcomes_are_sent_are_dropped() -> None:
    ids = DeliveryIds()
    for number in range(1, 10_001):
        ids.add(number, 2 * number)
        ids.forget(number - 10)
    assert len(ids._runs) < 200
    assert pairs(ids, 9_999, 10_000) == [(19_998, 19_998), (20_000, 20_000)]


@given(st.lists(st.integers(1, 3), min_size=1, max_size=40), st.data())
def test_ranges_equal_the_ranges_of_a_list(steps: list[int], data: st.DataObject) -> None:
    ids, expected, delivery_id = DeliveryIds(), {}, 0
    for number, step in enumerate(steps, 1):
        delivery_id += step
        ids.add(number, delivery_id)
        expected[number] = delivery_id
    first = data.draw(st.integers(1, len(steps)))
    last = data.draw(st.integers(first, len(steps)))
    ids.forget(first - 1)
    found = [each for begin, end in pairs(ids, first, last) for each in range(begin, end + 1)]
    assert found == [expected[number] for number in range(first, last + 1)]


def test_id_of_a_number_leaves_gaps_out() -> None:
    ids = SentIds()
    ids.advance(3)
    ids.skip_to(6, 0)
    ids.advance(2)
    ids.skip_to(9, 0)
    ids.advance(1)
    numbers = [1, 2, 3, 6, 7, 9]
    assert [ids.id_of(number) for number in numbers] == list(range(6))
    assert [ids.number_of(number) for number in range(6)] == numbers


def written(accepted: AcceptedRanges) -> list[tuple[int, int]]:
    out = BytesWriter()
    accepted.write(out, 3)
    found = []
    for each in FrameSplitter(1 << 16).feed(out.getvalue()):
        disposition = decode_performative(each.body)[0]
        first = disposition.number("first")
        found.append((first, disposition.number("last", first)))
    return found


@given(st.integers(0, 0xFFFFFFFF), st.lists(st.tuples(st.integers(1, 3), st.integers(1, 5)), max_size=20), st.randoms())
def test_ranges_have_the_same_deliveries_and_none_touches_another(
    start: int, parts: list[tuple[int, int]], chance: object
) -> None:
    accepted, expected, at = AcceptedRanges(), set(), start
    ranges = []
    for gap, size in parts:
        at += gap - 1
        ranges.append((at & 0xFFFFFFFF, (at + size - 1) & 0xFFFFFFFF))
        expected |= {(at + n) & 0xFFFFFFFF for n in range(size)}
        at += size
    chance.shuffle(ranges)  # type: ignore[attr-defined]
    for first, last in ranges:
        accepted.add(first, last)
    found = written(accepted)
    assert {
        (first + n) & 0xFFFFFFFF for first, last in found for n in range(((last - first) & 0xFFFFFFFF) + 1)
    } == expected
    assert not {(last + 1) & 0xFFFFFFFF for _, last in found} & {first for first, _ in found}
    assert written(accepted) == []
