"""Whatever arrives, the codec reads it or raises CodecError; it never breaks in any other way."""

from __future__ import annotations

import pickle
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import (
    CodecError,
    Properties,
    decode_method,
    decode_properties,
    decode_table,
    encode_header,
    encode_method,
    encode_table,
)
from penstock.wire.amqp091.spec import METHODS, MethodSpec, ReplyCode
from tests.profiles import examples
from tests.support import amqp091_strategies
from tests.wire.amqp091.test_codec import sample

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


def test_value_may_not_reach_beyond_its_table_into_what_follows() -> None:
    with pytest.raises(CodecError, match="needs 4 octets where 2 are left"):
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


def test_octets_after_the_last_field_are_refused() -> None:
    with pytest.raises(CodecError, match=r"tx\.select has 1 octets too many"):
        decode_method(encode_method(spec.TX_SELECT) + b"\0")


def test_reason_names_the_method() -> None:
    with pytest.raises(CodecError, match=r"^queue\.declare: a short string is not UTF-8$") as caught:
        decode_method(bytes.fromhex("0032000a 0000 01 ff 00 00000000"))
    assert caught.value.code is ReplyCode.FRAME_ERROR


@given(st.binary(max_size=200))
@example(b"")
def test_arbitrary_octets_raise_nothing_but_a_codec_error(data: bytes) -> None:
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
def test_method_with_a_spoilt_octet_raises_nothing_but_a_codec_error(
    method: tuple[int, dict[str, object]], data: st.DataObject
) -> None:
    payload = bytearray(encode_method(method[0], **method[1]))
    payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    with suppress(CodecError):
        decode_method(bytes(payload))


def test_codec_error_is_one_of_ours_tells_its_reason_and_can_be_pickled() -> None:
    error = CodecError("a reason", ReplyCode.SYNTAX_ERROR)
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(error, PenstockError)
    assert isinstance(again, CodecError)
    assert (str(again), again.reason, again.code) == ("a reason", "a reason", ReplyCode.SYNTAX_ERROR)
