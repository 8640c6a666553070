"""Methods from arguments to bytes and back, with pamqp as a second opinion."""

from __future__ import annotations

import pytest
from hypothesis import given
from pamqp import commands

from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import CodecError, decode_method, encode_method, frame, method_frame, short_text
from penstock.wire.amqp091.spec import METHODS, MethodSpec
from tests.support import amqp091_strategies

KNOWN_TO_PAMQP = [method for method in METHODS.values() if method.id in commands.INDEX_MAPPING]


@given(amqp091_strategies.methods())
def test_method_comes_back_as_it_was_encoded(method: tuple[int, dict[str, object]]) -> None:
    method_id, args = method
    read = decode_method(encode_method(method_id, **args))
    assert (read.id, read.args) == (method_id, args)


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)
def test_fields_that_are_not_given_are_zero_empty_or_false(method: MethodSpec) -> None:
    zero = {"shortstr": "", "longstr": b"", "table": {}, "bit": False}
    assert decode_method(encode_method(method.id)).args == {name: zero.get(kind, 0) for name, kind in method.fields}


SAMPLES: dict[str, object] = {
    "octet": 9,
    "short": 0x1234,
    "long": 0x12345678,
    "longlong": 0x0123456789ABCDEF,
    "shortstr": "naïve ☃",
    "longstr": b"long \x00 string",
    "table": {"text": "ü", "number": 7, "deep": {"list": [1, True, None]}},
}


def sample(method: MethodSpec, bits: int) -> dict[str, object]:
    """Arguments with the n-th bit field set where `bits` has its n-th bit."""
    args: dict[str, object] = {}
    for name, kind in method.fields:
        args[name] = SAMPLES.get(kind)
        if kind == "bit":
            args[name] = bool(bits & 1)
            bits >>= 1
    return args


@pytest.mark.filterwarnings("ignore:This command is deprecated")
@pytest.mark.parametrize("bits", [0b00000, 0b11111, 0b00001, 0b01010, 0b10100])
@pytest.mark.parametrize("method", KNOWN_TO_PAMQP, ids=lambda method: method.name)
def test_method_that_we_write_is_read_and_written_the_same_by_pamqp(method: MethodSpec, bits: int) -> None:
    args = sample(method, bits) | {name: _for_pamqp(method, name) for name, kind in method.fields if kind in TEXTS}
    args = {name: value for name, value in args.items() if not name.startswith("reserved") or value == "0"}
    ours = encode_method(method.id, **args)

    theirs = commands.INDEX_MAPPING[method.id]()
    theirs.unmarshal(ours[4:])
    read = [getattr(theirs, name) for name in theirs.attributes()]
    expected = [decode_method(ours).args[name] for name, _ in method.fields]
    assert [_comparable(value) for value in read] == [_comparable(value) for value in expected]
    if "table" not in dict(method.fields).values():  # where either may choose other types for the same values
        assert theirs.marshal() == ours[4:]


TEXTS = ("shortstr", "longstr")


def _for_pamqp(method: MethodSpec, name: str) -> str:
    """A text that pamqp takes: it checks some of them, and in channel.open it sticks to what 0-8 sent."""
    if name == "reserved_1":
        return "0" if method.name.startswith("channel") else ""
    return "topic" if name == "type" else "orders"


def _comparable(value: object) -> object:
    return value.encode() if isinstance(value, str) else value


def test_consecutive_bits_share_one_byte_and_the_first_is_the_lowest() -> None:
    payload = encode_method(spec.BASIC_CONSUME, queue="q", no_ack=True, no_wait=True)
    assert payload == bytes.fromhex("003c0014 0000 01 71 00 0a 00000000")


def test_frame_is_kind_channel_size_payload_and_end_mark() -> None:
    assert frame(8, 0, b"") == bytes.fromhex("08 0000 00000000 ce")
    assert method_frame(0x0102, spec.TX_SELECT) == bytes.fromhex("01 0102 00000004 005a000a ce")


def test_field_that_the_method_does_not_have_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(TypeError, match=r"queue\.declare has no field nowait"):
        encode_method(spec.QUEUE_DECLARE, nowait=True)


def test_close_carries_the_id_of_the_method_that_failed() -> None:
    payload = encode_method(spec.CHANNEL_CLOSE, reply_code=404, reply_text="NOT_FOUND", class_id=50, method_id=10)
    assert decode_method(payload).args["method_id"] == 10


@pytest.mark.parametrize(
    ("method_id", "args"),
    [
        (spec.QUEUE_DECLARE, {"queue": "q" * 256}),
        (spec.QUEUE_DECLARE, {"queue": "\ud800"}),
        (spec.QUEUE_DECLARE, {"queue": 5}),
        (spec.QUEUE_DECLARE, {"arguments": {"x": 2**63}}),
        (spec.QUEUE_DECLARE, {"arguments": {"x": object()}}),
        (spec.QUEUE_DECLARE, {"arguments": "none"}),
        (spec.BASIC_ACK, {"delivery_tag": -1}),
        (spec.BASIC_ACK, {"delivery_tag": 2**64}),
        (spec.BASIC_ACK, {"delivery_tag": "1"}),
        (spec.CONNECTION_TUNE, {"channel_max": 65536}),
        (spec.CONNECTION_SECURE, {"challenge": 1}),
        (0, {}),
    ],
)
def test_value_that_does_not_fit_its_field_is_named(method_id: int, args: dict[str, object]) -> None:
    with pytest.raises(CodecError, match=r"fit|bytes|id"):
        encode_method(method_id, **args)


def test_text_is_cut_between_characters_to_fit_a_short_string() -> None:
    assert short_text("as it is") == "as it is"
    assert short_text("☃" * 86) == "☃" * 85
    assert short_text("a" * 300) == "a" * 255
    assert short_text("é\ud800") == "é?"
