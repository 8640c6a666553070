"""Accepted deliveries: neighbours become one range, also where the ids begin again at 0."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from penstock.protocols.amqp10.accepted_ranges import AcceptedRanges
from penstock.wire.amqp10.composite import decode_performative
from penstock.wire.amqp10.frames import FrameSplitter


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
