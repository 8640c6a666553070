"""Fields on a writer, and the sizes that are filled in."""

from __future__ import annotations

import pytest
from librt.strings import BytesWriter

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import decode_performative
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.value_writer import begin_performative, end_performative, put_boolean, put_uint
from tests.support.frame_splitter import FrameSplitter


@pytest.mark.parametrize(
    ("value", "octets"),
    [
        (ABSENT, "40"), (0, "43"), (1, "5201"), (255, "52ff"), (256, "7000000100"), (2**31, "7080000000"),
        (2**31 - 1, "707fffffff"), (2**32 - 1, "70ffffffff"),
    ],
)  # fmt: skip
def test_uint_has_its_smallest_form(value: int, octets: str) -> None:
    out = BytesWriter()
    put_uint(out, value)
    assert out.getvalue().hex() == octets


def test_boolean() -> None:
    out = BytesWriter()
    for value in (1, 0, ABSENT):
        put_boolean(out, value)
    assert out.getvalue().hex() == "414240"


def test_sizes_are_filled_in_after_what_lies_before() -> None:
    out = BytesWriter()
    out.write(b"before")
    start = begin_performative(out, 513, spec.DETACH)
    put_uint(out, 70_000)
    put_boolean(out, 1)
    end_performative(out, start, 2)
    start = begin_performative(out, 65535, spec.TRANSFER)
    put_uint(out, 3)
    end_performative(out, start, 1, 70_000)
    out.write(b"x" * 70_000)
    first, second = FrameSplitter(1 << 20).feed(out.getvalue()[6:])
    assert (first.channel, second.channel) == (513, 65535)
    assert decode_performative(first.body)[0].number("handle") == 70_000
    found, payload = decode_performative(second.body)
    assert found.number("handle") == 3
    assert second.body[payload:] == b"x" * 70_000
