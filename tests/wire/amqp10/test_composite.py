"""Composites: each field of each type, and errors that name the field."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import (
    Composite,
    as_composite,
    as_described,
    composite,
    decode_composite,
    decode_performative,
    descriptor_code,
    encode,
    encode_composite,
)
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import (
    DECODE_ERROR,
    INVALID_FIELD,
    NOT_IMPLEMENTED,
    Array,
    CodecError,
    Described,
    Symbol,
    Typed,
    uint,
    ulong,
)
from tests.profiles import examples
from tests.support import amqp10_strategies
from tests.support.amqp10_wide import widened


@settings(max_examples=examples(1500))
@given(amqp10_strategies.composites)
def test_composite_is_read_as_it_was_written(value: Composite) -> None:
    octets = encode_composite(value)
    found, end = decode_composite(octets)
    assert (found, end) == (value, len(octets))
    assert encode_composite(found) == octets
    assert decode_composite(widened(octets))[0] == value


@pytest.mark.parametrize(
    ("octets", "value"),
    [
        # As python-qpid-proton writes them: list32 and array32 where it does not know the size before.
        (
            "005310 d0 00000015 00000003 a10474657374 a1096c6f63616c686f7374",
            {"container_id": "test", "hostname": "localhost"},
        ),
        ("005310 c0 07 01 a10474657374".replace("c0 07", "c0 07"), {"container_id": "test", "channel_max": 65535}),
        ("00 a3 0e 616d71703a6f70656e3a6c697374 c0 07 01 a10474657374", {"container_id": "test"}),
        ("00 80 0000000000000010 c0 07 01 a10474657374", {"container_id": "test"}),
    ],
)
def test_open_in_other_forms(octets: str, value: dict[str, object]) -> None:
    data = bytearray(bytes.fromhex(octets))
    if data[3] == 0xD0:
        data[4:12] = (len(data) - 8).to_bytes(4, "big") + (2).to_bytes(4, "big")
    found, end = decode_composite(bytes(data))
    assert end == len(data)
    assert found.name == "open"
    assert {name: found.fields[name] for name in value} == value


def test_field_with_multiple_values_may_be_a_single_one() -> None:
    for octets in ("c0 06 01 a3 03 464f4f", "c0 09 01 e0 06 01 a3 03 464f4f"):
        data = bytes.fromhex("005340" + octets)
        assert decode_composite(data)[0].texts("sasl_server_mechanisms") == ["FOO"]
    assert encode(spec.SASL_MECHANISMS, sasl_server_mechanisms=["FOO"]).hex() == "005340c00901e00601a303464f4f"


def test_absent_last_fields_and_defaults_are_not_written() -> None:
    assert encode(spec.CLOSE).hex() == "00531845"
    assert encode(spec.DETACH, handle=0, closed=False).hex() == "005316c0020143"
    assert encode(spec.DETACH, handle=0, closed=True).hex() == "005316c003024341"
    assert encode(spec.BEGIN, next_outgoing_id=1, incoming_window=2, outgoing_window=3, handle_max=2**32 - 1).hex() == (
        "005311c008044052015202 5203".replace(" ", "")
    )


def test_fields_are_read_by_their_type() -> None:
    data = encode(
        spec.ATTACH,
        name="l",
        handle=7,
        role=True,
        source=composite(spec.SOURCE, address="q", outcomes=["amqp:accepted:list"], filter={Symbol("f"): "x"}),
        properties={Symbol("a"): 1},
    )
    found = decode_performative(data)[0]
    assert (found.text("name"), found.number("handle"), found.flag("role")) == ("l", 7, True)
    assert found.number("max_message_size", 5) == 5
    assert found.mapping("properties") == {Symbol("a"): 1}
    assert found.mapping("unsettled") == {}
    source = found.inner("source")
    assert source.texts("outcomes") == ["amqp:accepted:list"]
    assert source.mapping("filter") == {Symbol("f"): "x"}
    assert found.inner("target") is None
    assert found.octets("name") == b""
    assert repr(found).startswith("<attach {'name': 'l'")


def test_terminus_or_state_of_another_specification_stays_as_it_is() -> None:
    other = Described(Symbol("com.example:target:list"), [1])
    data = encode(spec.ATTACH, name="l", handle=0, role=False, target=other)
    assert decode_composite(data)[0].fields["target"] == other


@pytest.mark.parametrize(
    ("octets", "reason", "condition"),
    [
        ("40", "a composite must begin with its descriptor", DECODE_ERROR),
        ("00 5399 45", "no composite has the descriptor ulong 153", NOT_IMPLEMENTED),
        ("00 a1 01 61 45", "no composite has the descriptor 'a'", NOT_IMPLEMENTED),
        ("005310 c1 01 00", "open: its fields are no list", DECODE_ERROR),
        ("005310 45", "open: container-id: it is mandatory and absent", INVALID_FIELD),
        ("005310 c0 02 01 40", "open: container-id: it is mandatory and absent", INVALID_FIELD),
        ("005310 c0 03 01 5001", "open: container-id: it must be of type string, not a ubyte", DECODE_ERROR),
        (
            "005310 c0 05 02 a10161 46",
            "open: hostname: it must be of type string, not a value of unknown",
            DECODE_ERROR,
        ),
        ("005318 c0 03 02 4040", "close: 2 fields, where it has 1", DECODE_ERROR),
        ("005318 c0 03 01 4040", "too many", DECODE_ERROR),
        ("005318 c0 03 01 5001", "close: error: it must be a described value, not a ubyte", DECODE_ERROR),
        ("005318 c0 05 01 00531045", "close: error: it must provide error, not be of type open", DECODE_ERROR),
        ("005318 c0 05 01 00539945", "close: error: it must be an error", DECODE_ERROR),
        ("005318 c0 05 01 00531d45", "close: error: error: condition: it is mandatory", INVALID_FIELD),
        ("005316 c0 04 02 43 5001", "detach: closed: it must be of type boolean, not a ubyte", DECODE_ERROR),
        ("005314 c0 24 03 43 40 a021" + "61" * 33, "transfer: delivery-tag: 33 bytes is more than 32", INVALID_FIELD),
        ("005344 c0 03 01 5005", "sasl-outcome: code: 5 is more than 4", INVALID_FIELD),
        ("005329 c0 06 03 4040 a30161", "target: expiry-policy: 'a' is none of link-detach", INVALID_FIELD),
        ("00531d c0 0c 03 a30161 40 c1 06 02 a10161 5501", "error: info: the key 'a' is no symbol", INVALID_FIELD),
        ("005340 c0 07 01 e0 04 01 a1 0161", "it must be an array of type symbol, not string", DECODE_ERROR),
        ("005340 c0 05 01 e0 02 00 a3", "it is mandatory and absent", INVALID_FIELD),
        ("005340 c0 03 01 5001", "it must be of type symbol, not a ubyte", DECODE_ERROR),
        ("005373 c0 02 01 41", "properties: message-id: it must be a ulong, uuid, binary or string", DECODE_ERROR),
    ],
)
def test_malformed_composite_names_the_field(octets: str, reason: str, condition: str) -> None:
    data = bytearray(bytes.fromhex(octets))
    if len(data) > 5 and data[0] == 0 and data[3] == 0xC0:  # The size is filled in: what is tested lies inside.
        data[4] = len(data) - 5
    with pytest.raises(CodecError) as caught:
        decode_composite(bytes(data))
    assert reason in str(caught.value)
    assert caught.value.condition == condition


def test_performative_other_than_a_transfer_has_no_payload() -> None:
    assert decode_performative(encode(spec.TRANSFER, handle=0) + b"payload")[1] == 7
    with pytest.raises(CodecError, match="close: 7 bytes too many"):
        decode_performative(encode(spec.CLOSE) + b"payload")


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (spec.OPEN, {}),
        (spec.OPEN, {"container_id": 1}),
        (spec.OPEN, {"container_id": "a", "max_frame_size": -1}),
        (spec.OPEN, {"container_id": "a", "offered_capabilities": "a"}),
        (spec.TRANSFER, {"handle": 0, "delivery_tag": bytes(33)}),
        (spec.TRANSFER, {"handle": 0, "state": composite(spec.SOURCE)}),
        (spec.TRANSFER, {"handle": 0, "state": 1}),
        (spec.CLOSE, {"error": Described(Symbol("x"), 1)}),
        (spec.PROPERTIES, {"message_id": True}),
        (spec.TARGET, {"durable": 3}),
        (spec.TARGET, {"expiry_policy": "sometimes"}),
        (spec.ERROR, {"condition": "a", "info": {"a": 1}}),
    ],
)
def test_composite_with_a_field_out_of_range_is_not_written(code: int, fields: dict[str, object]) -> None:
    with pytest.raises(CodecError) as caught:
        encode(code, **fields)
    assert str(caught.value).startswith(spec.COMPOSITES[code].name)


def test_field_that_a_composite_does_not_have_is_an_error_of_the_program() -> None:
    with pytest.raises(TypeError, match="open has no field colour"):
        encode(spec.OPEN, colour="red")


def test_composites_in_maps_are_described_values() -> None:
    accepted = composite(spec.ACCEPTED)
    assert as_described(accepted) == Described(ulong(spec.ACCEPTED), [])
    assert as_composite(as_described(accepted)) == accepted
    assert as_composite(5) is None
    assert as_composite(Described(Symbol("x"), 5)) is None
    data = encode(spec.ATTACH, name="l", handle=0, role=True, unsettled={b"1": as_described(accepted)})
    assert decode_composite(data)[0].mapping("unsettled") == {b"1": as_described(accepted)}


def test_descriptors_of_composites_and_sections() -> None:
    assert descriptor_code(ulong(0x75)) == spec.DATA
    assert descriptor_code(Symbol("amqp:data:binary")) == spec.DATA
    assert descriptor_code(ulong(0x99)) == descriptor_code(uint(0x75)) == descriptor_code(Symbol("x")) == 0


def test_composite_with_a_type_that_needs_a_mark_carries_it() -> None:
    data = encode(spec.PROPERTIES, message_id=Typed("uuid", bytes(16)), correlation_id=ulong(5))
    found = decode_composite(data)[0]
    assert found.fields["message_id"] == Typed("uuid", bytes(16))
    assert found.fields["correlation_id"] == ulong(5)
    assert encode_value(Array("symbol", ["a"])).hex() == "e00401a30161"
