"""Values from bytes: each encoding of section 1.6, and malformed ones."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from penstock.wire.amqp10.value_reader import ValueReader, decode_value
from penstock.wire.amqp10.values import Array, CodecError, Described, Symbol, Typed, timestamp, uint, ulong
from tests.profiles import examples
from tests.support import amqp10_strategies
from tests.support.amqp10_wide import wide


@pytest.mark.parametrize(
    ("octets", "value"),
    [
        ("40", None),
        ("41", True),
        ("42", False),
        ("56 01", True),
        ("56 00", False),
        ("50 ff", Typed("ubyte", 255)),
        ("60 fffe", Typed("ushort", 65534)),
        ("43", uint(0)),
        ("52 ff", uint(255)),
        ("70 fffffffe", uint(2**32 - 2)),
        ("44", ulong(0)),
        ("53 ff", ulong(255)),
        ("80 fffffffffffffffe", ulong(2**64 - 2)),
        ("51 ff", Typed("byte", -1)),
        ("61 fffe", Typed("short", -2)),
        ("54 fd", Typed("int", -3)),
        ("71 fffffffd", Typed("int", -3)),
        ("55 fc", -4),
        ("81 fffffffffffffffc", -4),
        ("72 3fc00000", Typed("float", 1.5)),
        ("82 bff8000000000000", -1.5),
        ("74 22500001", Typed("decimal32", bytes.fromhex("22500001"))),
        ("84 2238000000000001", Typed("decimal64", bytes.fromhex("2238000000000001"))),
        ("94" + "22080000000000000000000000000001", Typed("decimal128", bytes.fromhex("2208" + "00" * 13 + "01"))),
        ("73 0001f600", Typed("char", "😀")),
        (f"83 {1343733000064:016x}", timestamp(1343733000064)),
        ("98 00112233445566778899aabbccddeeff", Typed("uuid", bytes.fromhex("00112233445566778899aabbccddeeff"))),
        ("a0 02 00ff", b"\x00\xff"),
        ("b0 00000002 00ff", b"\x00\xff"),
        ("a1 02 c3bc", "ü"),
        ("b1 00000002 c3bc", "ü"),
        ("a3 03 666f6f", Symbol("foo")),
        ("b3 00000003 666f6f", Symbol("foo")),
        ("45", []),
        ("c0 01 00", []),
        ("c0 04 02 40 5501", [None, 1]),
        ("d0 00000007 00000002 40 5501", [None, 1]),
        ("c1 01 00", {}),
        ("c1 06 02 a10161 5501", {"a": 1}),
        ("d1 00000009 00000002 a10161 5501", {"a": 1}),
        ("e0 05 02 a1 0161 00", Array("string", ["a", ""])),
        ("f0 00000009 00000001 a3 03666f6f", Array("symbol", ["foo"])),
        ("e0 01 00", Array("null", [])),
        ("e0 02 00 a3", Array("symbol", [])),
        ("e0 02 03 43", Array("uint", [0, 0, 0])),
        ("e0 02 01 45", Array("list", [[]])),
        ("e0 04 02 56 0100", Array("boolean", [True, False])),
        ("e0 09 01 00 5303 70 00000001", Array("uint", [1], (ulong(3),))),
        ("00 5310 45", Described(ulong(0x10), [])),
        ("00 a3 01 61 00 5301 40", Described(Symbol("a"), Described(ulong(1), None))),
        # The example of section 1.3.1: a URL described by a string.
        (
            "00 a1 03 55524c a1 1e 687474703a2f2f6578616d706c652e6f72672f68656c6c6f2d776f726c64",
            Described("URL", "http://example.org/hello-world"),
        ),
    ],
)  # fmt: skip
def test_encodings_of_the_specification_are_all_read(octets: str, value: object) -> None:
    data = bytes.fromhex(octets)
    assert decode_value(b"\xff" + data + b"\xff", 1) == (value, 1 + len(data))


def test_book_of_the_specification() -> None:
    """The example of section 1.4: a book with a title, a list of authors and no edition."""
    authors = b"\xe0\x25\x02\xa1\x0eRob J. Godfrey\x13Rafael H. Schloming"
    data = b"\x00\xa3\x11example:book:list\xc0\x40\x03\xa1\x15AMQP for & by Dummies" + authors + b"\x40"
    book = ["AMQP for & by Dummies", Array("string", ["Rob J. Godfrey", "Rafael H. Schloming"]), None]
    assert decode_value(data) == (Described(Symbol("example:book:list"), book), len(data))


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        ("", "a value ends before its format code"),
        ("00", "a value ends before its format code"),
        ("46", "no type has the format code 0x46"),
        ("56 02", "a boolean has the byte 0x02"),
        ("73 00110000", "a char has the number 0x110000, which is no character"),
        ("73 0000d800", "which is no character"),
        ("a1 01 ff", "a string is not UTF-8"),
        ("a3 01 ff", "a symbol is not ASCII"),
        ("a1 05 61", "a string needs 5 bytes where 1 are left"),
        ("b0 ffffffff 00", "a binary needs 4294967295 bytes where 1 are left"),
        ("80 00", "a ulong needs 8 bytes where 1 are left"),
        ("c0 00", "a list of 0 bytes has no room for its count"),
        ("d0 00000003 000000", "a list of 3 bytes has no room for its count"),
        ("c0 05 01 40", "a list of 5 bytes is longer than the 2 bytes left"),
        ("d0 ffffffff 00000000", "a list of 4294967295 bytes is longer than the 4 bytes left"),
        ("c0 02 02 40", "2 elements are more than the 1 bytes left can hold"),
        ("d0 00000005 ffffffff 40", "4294967295 elements are more than the 1 bytes left can hold"),
        ("c0 03 01 40 40", "has 1 bytes too many"),
        ("c1 02 01 40", "a map has 1 keys and values, an odd number"),
        ("c1 09 04 a10161 40 a10161 40", "a map has the key 'a' twice"),
        ("c1 03 02 45 40", "the key of a map is a list"),
        ("e0 06 ff 70 00000000", "255 elements are more than the 4 bytes left can hold"),
        ("f0 00000005 ffffffff 40", "an array has 4294967295 elements without bytes; 16 is the most"),
        ("e0 02 01 46", "no type has the format code 0x46"),
        ("e0 01 01", "a value ends before its format code"),
        ("00" * 100, "a value lies more than 32 deep"),
        ("c0 02 01" * 40, "needs 1 bytes where 0 are left"),
    ],
)
def test_malformed_bytes_are_refused_with_a_reason(octets: str, reason: str) -> None:
    with pytest.raises(CodecError) as caught:
        decode_value(bytes.fromhex(octets))
    assert reason in str(caught.value)


@settings(max_examples=examples(500))
@given(amqp10_strategies.anything)
def test_values_are_read_in_their_largest_form(value: object) -> None:
    data = wide(value)
    assert decode_value(data) == (value, len(data))


def nested(depth: int) -> bytes:
    data = b"\x45"
    for _ in range(depth - 1):
        data = b"\xd0" + (len(data) + 4).to_bytes(4, "big") + b"\x00\x00\x00\x01" + data
    return data


def test_nesting_is_bounded() -> None:
    value, _ = decode_value(nested(32))
    assert isinstance(value, list)
    with pytest.raises(CodecError, match="more than 32 deep"):
        decode_value(nested(33))


def test_reader_does_not_leave_its_bounds() -> None:
    with pytest.raises(CodecError, match="outside"):
        ValueReader(b"\x40", 2)
    reader = ValueReader(b"\x55\x01\x55\x02", 0, 3)
    assert reader.value() == 1
    assert reader.remaining() == 1
    with pytest.raises(CodecError):
        reader.value()
