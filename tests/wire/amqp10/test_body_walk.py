"""Bodies walked as they come: the same data is found in any pieces, and malformed ones are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.amqp10.body_walk import FOOTER_MAX, SECTIONS_MAX, BodyWalk, body_start, may_walk
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.spec import AMQP_VALUE, DATA
from penstock.wire.amqp10.value_walk import UNFIT
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import CodecError, Described, Symbol, ulong

FOOTER = encode_value(Described(ulong(0x78), {Symbol("sum"): 7}))


def section(octets: bytes, wide: bool = True, code: int = DATA, text: bool = False) -> bytes:
    """Return a section with a binary or a string."""
    kind = (0xB1 if text else 0xB0) if wide else (0xA1 if text else 0xA0)
    return bytes((0, 0x53, code, kind)) + len(octets).to_bytes(4 if wide else 1, "big") + octets


def walked(body: bytes, cuts: list[int]) -> BodyWalk:
    """Return the walk over a body that comes in pieces."""
    walk = BodyWalk()
    before = 0
    for cut in [*sorted(cut % (len(body) + 1) for cut in cuts), len(body)]:
        walk.feed(body[before:cut])
        before = cut
    walk.finish()
    return walk


def data_in(walk: BodyWalk, body: bytes) -> bytes:
    return b"".join(body[start : start + size] for start, size in zip(walk.starts, walk.sizes, strict=True))


@given(
    st.lists(st.tuples(st.binary(max_size=300), st.booleans()), min_size=1, max_size=5),
    st.booleans(),
    st.lists(st.integers(0, 10_000), max_size=20),
)
def test_data_is_found_however_it_is_cut(sections: list[tuple[bytes, bool]], footer: bool, cuts: list[int]) -> None:
    body = b"".join(section(octets, wide or len(octets) > 255) for octets, wide in sections)
    whole = body + (FOOTER if footer else b"")
    walk = walked(whole, cuts)
    assert data_in(walk, whole) == b"".join(octets for octets, _ in sections)
    assert (walk.code, walk.octets) == (DATA, len(whole))


@given(st.text(max_size=200), st.booleans(), st.lists(st.integers(0, 10_000), max_size=20))
def test_string_is_found_however_it_is_cut(text: str, footer: bool, cuts: list[int]) -> None:
    body = section(text.encode(), True, AMQP_VALUE, True) + (FOOTER if footer else b"")
    walk = walked(body, cuts)
    assert data_in(walk, body) == text.encode()
    assert walk.code == AMQP_VALUE


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (section(b"abc")[:-1], "ends 1 bytes before its size"),
        (section(b"abc") + b"\x00\x53", "ends 0 bytes before its size"),
        (section(b"abc") + section(b"x", code=AMQP_VALUE), "descriptor 0x77 after its first one"),
        (section(b"abc", code=AMQP_VALUE) + section(b"x"), "descriptor 0x75 after its first one"),
        (b"\x00\x53\x75\xa1\x01x", "neither binary nor a string"),
        (b"\x00\x80" + bytes(7) + b"\x75\xa0\x01x", "in one byte"),
        (section(b"\xff\xfe", code=AMQP_VALUE, text=True), "not UTF-8"),
        (section("é".encode()[:1], code=AMQP_VALUE, text=True), "not UTF-8"),
        (section(b"abc") + FOOTER + b"\x00", "footer: malformed"),
        (section(b"abc") + FOOTER[:-1], "footer: malformed"),
    ],
)
def test_malformed_bodies_are_refused(body: bytes, reason: str) -> None:
    with pytest.raises(CodecError, match=reason):
        walked(body, [2, 4, 9])


def test_sections_and_the_footer_are_bounded() -> None:
    with pytest.raises(CodecError, match="more than 1,024 data sections"):
        walked(section(b"x", False) * (SECTIONS_MAX + 1), [])
    walk = BodyWalk()
    walk.feed(section(b"x") + b"\x00\x53\x78\xd1\x00\xff\xff\xff")
    with pytest.raises(CodecError, match="footer: more than"):
        walk.feed(bytes(FOOTER_MAX))


def test_body_of_a_beginning_is_found() -> None:
    head = encode_value(Described(ulong(0x72), {Symbol("x-a"): 1}))
    head += encode_value(Described(ulong(0x74), {"color": "red"}))
    data = head + section(bytes(1000))
    assert body_start(data, len(head) + 8) == len(head)
    assert body_start(data, len(head) + 7) == UNFIT
    assert body_start(data, 3) == UNFIT
    assert body_start(b"\x00\x53\x74\xc1\x02" + bytes(20), 25) == UNFIT


@pytest.mark.parametrize(
    ("body", "may"),
    [
        (section(b"x"), True),
        (section(b"x", False), True),
        (section(bytes(5), code=AMQP_VALUE), True),
        (section(b"text", code=AMQP_VALUE, text=True), True),
        (b"\x00\x53\x77\xd0" + bytes(8), False),
        (b"\x00\x53\x76\xd0" + bytes(8), False),
    ],
)
def test_lists_and_maps_are_not_walked(body: bytes, may: bool) -> None:
    assert may_walk(body, 0) is may


def test_empty_walk_has_no_body() -> None:
    walk = BodyWalk()
    walk.finish()
    assert walk.code == ABSENT
