"""Field tables from and to bytes: each type of RabbitMQ and its clients, and malformed ones."""

from __future__ import annotations

import math
import pickle
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pamqp import decode as pamqp_decode
from pamqp import encode as pamqp_encode

from penstock.content.properties import Properties
from penstock.errors import PenstockError
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import CodecError, decode_method, decode_table, encode_method, encode_table
from penstock.wire.amqp091.content_header import decode_properties, encode_header
from penstock.wire.amqp091.fields import FieldReader, TolerantFieldReader
from penstock.wire.amqp091.spec import METHODS, MethodSpec, ReplyCode
from tests.profiles import examples
from tests.support import amqp091_strategies
from tests.wire.amqp091.test_codec import sample


@given(amqp091_strategies.tables, amqp091_strategies.octets, amqp091_strategies.octets)
def test_table_is_read_where_it_lies(table: dict[str, object], before: bytes, after: bytes) -> None:
    data = encode_table(table)
    assert decode_table(before + data + after, len(before)) == (table, len(before) + len(data))


@given(amqp091_strategies.tables)
def test_field_tables_of_pamqp_are_read_as_pamqp_reads_them(table: dict[str, object]) -> None:
    data = pamqp_encode.field_table(_without_what_pamqp_cannot_say(table))  # type: ignore[arg-type]
    assert decode_table(data, 0)[0] == pamqp_decode.field_table(data)[1]


def _without_what_pamqp_cannot_say(value: object) -> object:
    """pamqp cuts names at 128 octets in the middle of a character, and has no way to write some numbers."""
    if isinstance(value, dict):
        return {name[:30]: _without_what_pamqp_cannot_say(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_without_what_pamqp_cannot_say(inner) for inner in value]
    if isinstance(value, bytes):
        return bytearray(value)
    return None if isinstance(value, (float, Decimal)) else value


@pytest.mark.parametrize(
    ("octets", "value"),
    [
        ("74 00", False),
        ("74 01", True),
        ("62 ff", -1),
        ("42 ff", 255),
        ("73 fffe", -2),
        ("75 fffe", 65534),
        ("49 fffffffd", -3),
        ("69 fffffffd", 4294967293),
        ("6c fffffffffffffffc", -4),
        ("4c fffffffffffffffc", -4),
        ("66 3fc00000", 1.5),
        ("64 bff8000000000000", -1.5),
        ("44 02 0000007b", Decimal("1.23")),
        ("44 00 ffffffff", Decimal(-1)),
        ("44 ff 00000001", Decimal((0, (1,), -255))),
        ("53 00000002 c3bc", "ü"),
        ("53 00000001 ff", b"\xff"),
        ("78 00000001 ff", b"\xff"),
        ("54 0000000000000001", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        ("54 0000003afff4417f", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("54 0000003afff44180", 253402300800),
        ("54 ffffffffffffffff", 2**64 - 1),
        ("56", None),
        ("41 00000000", []),
        ("41 00000003 56 7401", [None, True]),
        ("46 00000000", {}),
        ("46 00000003 016b 56", {"k": None}),
    ],
)
def test_field_value_of_each_type_is_read(octets: str, value: object) -> None:
    field = b"\x01v" + bytes.fromhex(octets)
    table, _ = decode_table(len(field).to_bytes(4, "big") + field, 0)
    assert table == {"v": value}
    assert type(table["v"]) is type(value)


def test_field_name_that_occurs_twice_has_its_last_value() -> None:
    assert decode_table(bytes.fromhex("00000008 0176 7400 0176 7401"), 0)[0] == {"v": True}


def nested(depth: int, of: str) -> object:
    """A value that makes a table lie `depth` deep."""
    value: object = {}
    for _ in range(depth - 2):
        value = {"t": value} if of == "tables" else [value]
    return {"t": value}


@pytest.mark.parametrize("of", ["tables", "arrays"])
def test_tables_and_arrays_nest_32_deep_and_no_deeper(of: str) -> None:
    deepest = nested(32, of)
    assert isinstance(deepest, dict)
    assert decode_table(encode_table(deepest), 0)[0] == deepest
    with pytest.raises(CodecError, match="more than 32 deep"):
        encode_table({"t": deepest})


@pytest.mark.parametrize("depth", [33, 200, 100_000])
@pytest.mark.parametrize("kind", [b"F", b"A"])
def test_deeper_nesting_is_refused_before_the_stack_can_be_exhausted(kind: bytes, depth: int) -> None:
    name = b"\x01t" if kind == b"F" else b""
    header = len(name) + 5
    data = bytearray((header * depth + 2).to_bytes(4, "big") + b"\x01t" if kind == b"A" else b"")
    if kind == b"A":
        data[:4] = (2 + 5 * depth).to_bytes(4, "big")
    else:
        data += (header * depth).to_bytes(4, "big")
    for level in range(depth, 0, -1):
        data += name + kind + (header * (level - 1)).to_bytes(4, "big")
    with pytest.raises(CodecError, match="more than 32 deep"):
        decode_table(bytes(data), 0)


@given(amqp091_strategies.tables)
def test_table_comes_back_as_it_went_out(table: dict[str, object]) -> None:
    data = encode_table(table)
    assert decode_table(data, 0) == (table, len(data))


@given(amqp091_strategies.tables)
def test_pamqp_reads_the_same_from_our_tables(table: dict[str, object]) -> None:
    data = encode_table(table)
    assert pamqp_decode.field_table(data) == (len(data), table)


@pytest.mark.parametrize(
    ("value", "octets"),
    [
        (True, "74 01"),
        (2**31 - 1, "49 7fffffff"),
        (2**31, "6c 0000000080000000"),
        (-(2**31), "49 80000000"),
        (-(2**31) - 1, "6c ffffffff7fffffff"),
        (1.5, "64 3ff8000000000000"),
        ("ü", "53 00000002 c3bc"),
        (b"\x00", "78 00000001 00"),
        (bytearray(b"\x01"), "78 00000001 01"),
        (memoryview(b"\x02"), "78 00000001 02"),
        (Decimal("-1.23"), "44 02 ffffff85"),
        (Decimal("2E+3"), "44 00 000007d0"),
        (datetime(1970, 1, 1, 0, 0, 1), "54 0000000000000001"),  # noqa: DTZ001  without a zone it is UTC
        (datetime(1970, 1, 1, 0, 0, 1, 999999, tzinfo=UTC), "54 0000000000000001"),
        (None, "56"),
        ((1,), "41 00000005 49 00000001"),
    ],
)
def test_field_value_of_each_type_is_written(value: object, octets: str) -> None:
    assert encode_table({"v": value})[4:] == b"\x01v" + bytes.fromhex(octets)


@pytest.mark.parametrize(
    "value",
    [
        2**63,
        -(2**63) - 1,
        Decimal("NaN"),
        Decimal("Infinity"),
        Decimal(2**31),
        Decimal("1E+10"),
        Decimal("1E-256"),
        Decimal(12345678901),
        datetime(1969, 12, 31, tzinfo=UTC),
        "\udcff",
        {1: "a name that is no text"},
        {"n" * 256: 1},
        {1, 2},
        object(),
    ],
)
def test_value_that_no_table_can_hold_is_refused(value: object) -> None:
    with pytest.raises(CodecError):
        encode_table({"v": value})


def test_nan_is_a_number_on_the_wire() -> None:
    value = decode_table(encode_table({"v": math.nan}), 0)[0]["v"]
    assert isinstance(value, float)
    assert math.isnan(value)


EVERY_TYPE: dict[str, object] = {
    "S": "text",
    "t": True,
    "I": 1,
    "l": 2**40,
    "d": 1.5,
    "x": b"octets",
    "D": Decimal("1.5"),
    "T": datetime(2026, 1, 1, tzinfo=UTC),
    "V": None,
    "A": [1, [2]],
    "F": {"inner": {}},
}


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)
def test_method_cut_short_anywhere_is_refused(method: MethodSpec) -> None:
    payload = encode_method(method.id, **sample(method, 0))
    for length in range(len(payload)):
        with pytest.raises(CodecError) as caught:
            decode_method(payload[:length])
        assert caught.value.code is ReplyCode.FRAME_ERROR


def test_table_cut_short_anywhere_is_refused() -> None:
    data = encode_table(EVERY_TYPE)
    for length in range(len(data)):
        with pytest.raises(CodecError):
            decode_table(data[:length], 0)


def test_table_whose_size_ends_it_too_early_is_refused_or_ends_there() -> None:
    data = encode_table(EVERY_TYPE)
    for size in range(len(data) - 4):
        with suppress(CodecError):
            _, end = decode_table(size.to_bytes(4, "big") + data[4:], 0)
            assert end == 4 + size


def test_header_cut_short_anywhere_is_refused() -> None:
    payload = encode_header(10, Properties(content_type="a/b", headers=EVERY_TYPE, priority=1, timestamp=5, app_id="x"))
    for length in range(len(payload)):
        with pytest.raises(CodecError):
            decode_properties(payload[:length])


@pytest.mark.parametrize("kind", sorted(set(range(256)) - set(b"tbBsuIilLfdDSATFVx")))
def test_unknown_type_of_value_is_a_syntax_error(kind: int) -> None:
    with pytest.raises(CodecError, match="unknown type") as caught:
        decode_table(b"\x00\x00\x00\x0b\x01v" + bytes([kind]) + bytes(8), 0)
    assert caught.value.code is ReplyCode.SYNTAX_ERROR


@pytest.mark.parametrize("kind", [b"S", b"x", b"A", b"F"])
@pytest.mark.parametrize("size", [9, 2**31 - 1, 2**31, 2**32 - 1])
def test_length_beyond_the_payload_is_refused_before_anything_is_allocated(kind: bytes, size: int) -> None:
    value = b"\x01v" + kind + size.to_bytes(4, "big") + bytes(8)
    with pytest.raises(CodecError):
        decode_table(len(value).to_bytes(4, "big") + value, 0)


def test_value_may_not_reach_beyond_its_table() -> None:
    with pytest.raises(CodecError, match="needs 4 bytes where 2 are left"):
        decode_table(bytes.fromhex("00000005 0176 49 0000") + bytes(100), 0)


@pytest.mark.parametrize("pos", [-1, 5, 100])
def test_position_outside_the_payload_is_refused(pos: int) -> None:
    with pytest.raises(CodecError, match="outside"):
        decode_table(bytes(4), pos)


@pytest.mark.parametrize("payload", ["0032000b00", "0000000a", "ffffffff", "003c0029"])
def test_unknown_or_overlong_method_is_refused(payload: str) -> None:
    with pytest.raises(CodecError, match=r"known here|queue\.declare-ok"):
        decode_method(bytes.fromhex(payload))


def test_unknown_method_is_not_implemented_rather_than_malformed() -> None:
    with pytest.raises(CodecError, match="class 99 has no method 7") as caught:
        decode_method(bytes.fromhex("00630007"))
    assert caught.value.code is ReplyCode.NOT_IMPLEMENTED


def test_bytes_after_the_last_field_are_refused() -> None:
    with pytest.raises(CodecError, match=r"tx\.select has 1 bytes too many"):
        decode_method(encode_method(spec.TX_SELECT) + b"\0")


def test_reason_names_the_method() -> None:
    with pytest.raises(CodecError, match=r"^queue\.declare: a short string is not UTF-8$") as caught:
        decode_method(bytes.fromhex("0032000a 0000 01 ff 00 00000000"))
    assert caught.value.code is ReplyCode.FRAME_ERROR


@given(st.binary(max_size=200))
@example(b"")
def test_arbitrary_bytes_raise_codec_errors_only(data: bytes) -> None:
    with suppress(CodecError):
        decode_table(data, 0)
    with suppress(CodecError):
        decode_table(len(data).to_bytes(4, "big") + data, 0)
    with suppress(CodecError):
        decode_properties(b"\x00\x3c\x00\x00" + data)
    with suppress(CodecError):
        decode_method(data)


@settings(max_examples=examples(300))
@given(amqp091_strategies.methods(), st.data())
def test_method_with_a_spoilt_byte_raises_codec_errors_only(
    method: tuple[int, dict[str, object]], data: st.DataObject
) -> None:
    payload = bytearray(encode_method(method[0], **method[1]))
    payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    with suppress(CodecError):
        decode_method(bytes(payload))


def test_codec_error_has_a_reason_and_can_be_pickled() -> None:
    error = CodecError("a reason", ReplyCode.SYNTAX_ERROR)
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(error, PenstockError)
    assert isinstance(again, CodecError)
    assert (str(again), again.reason, again.code) == ("a reason", "a reason", ReplyCode.SYNTAX_ERROR)


def _with_name(table: bytes, name: bytes, other: bytes) -> bytes:
    assert len(name) == len(other)
    assert table.count(name) == 1
    return table.replace(name, other)


def test_tolerant_reader_leaves_out_only_the_entry_whose_name_is_not_utf_8() -> None:
    whole = {"first": 1, "wrongly": "b", "inner": {"also-wrong": [1], "kept": 2}, "last": b"\xff"}
    octets = _with_name(_with_name(encode_table(whole), b"wrongly", b"wr\xffngly"), b"also-wrong", b"also-wr\xe9ng")
    with pytest.raises(CodecError, match="a short string is not UTF-8"):
        FieldReader(octets).table()
    reader = TolerantFieldReader(octets)
    assert reader.table() == {"first": 1, "inner": {"kept": 2}, "last": b"\xff"}
    assert (reader.left_out, reader.remaining()) == (2, 0)


@given(amqp091_strategies.tables)
def test_tolerant_reader_reads_sound_tables_as_the_other(table: dict[str, object]) -> None:
    octets = encode_table(table)
    reader = TolerantFieldReader(octets)
    assert repr(reader.table()) == repr(FieldReader(octets).table())
    assert reader.left_out == 0


@given(amqp091_strategies.octets)
def test_tolerant_reader_reads_or_refuses_any_input(octets: bytes) -> None:
    with suppress(CodecError):
        TolerantFieldReader(octets).table()
