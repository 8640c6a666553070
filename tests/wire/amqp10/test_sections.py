"""Sections in place: order, contents and positions.

Sections built anew, and all others as they were.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite, decode_composite, encode
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.sections import (
    CORRELATION_ID,
    GROUP_SEQUENCE,
    MESSAGE_ID,
    REPLY_TO_GROUP_ID,
    SUBJECT,
    Sections,
    data_octets,
    header_end,
    header_octets,
    joined_data,
    property_at,
    symbol_text,
    with_annotations,
)
from penstock.wire.amqp10.value_reader import ValueReader, decode_value
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import CodecError, Described, Symbol, ulong
from tests.profiles import examples
from tests.support import amqp10_strategies
from tests.support.amqp10_sections import walked
from tests.support.amqp10_strategies import messages, octets_of, section
from tests.support.fields import fields_of

PROPERTIES = spec.COMPOSITES[spec.PROPERTIES]
DATA = "005375 a00141"


@settings(max_examples=examples(1000))
@given(messages(), st.binary(max_size=3))
def test_sections_are_found_where_they_were_written(message: dict[int, list[bytes]], before: bytes) -> None:
    data = before + octets_of(message)
    found = Sections()
    found.walk(data, len(before), len(data))
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    pos = len(before)
    for code, parts in message.items():
        starts[code] = pos
        pos += sum(len(part) for part in parts)
        ends[code] = pos
    for code, at in (
        (spec.DELIVERY_ANNOTATIONS, found.delivery_annotations),
        (spec.MESSAGE_ANNOTATIONS, found.message_annotations),
        (spec.PROPERTIES, found.properties),
        (spec.APPLICATION_PROPERTIES, found.application_properties),
        (spec.FOOTER, found.footer),
    ):
        assert at == starts[code] + 3 if code in starts else at == ABSENT
    body = next(code for code in message if spec.DATA <= code < spec.FOOTER)
    assert (found.body_code, found.body_at, found.body_end) == (body, starts[body], ends[body])
    hop = max((ends.get(code, len(before)) for code in (spec.HEADER, spec.DELIVERY_ANNOTATIONS)), default=0)
    assert found.annotated_at == hop
    assert found.header_end == ends.get(spec.HEADER, len(before))
    if not before:
        assert header_end(data) == found.header_end
    assert found.annotations_end == ends.get(spec.MESSAGE_ANNOTATIONS, hop)
    beginning = Sections()
    beginning.walk_beginning(data, len(before), len(data))
    for name in ("durable", "priority", "ttl", "annotated_at", "message_annotations", "annotations_end", "end"):
        assert getattr(beginning, name) == getattr(found, name)


@settings(max_examples=examples(300))
@given(amqp10_strategies.arguments(spec.COMPOSITES[spec.HEADER]))
def test_header_is_read(fields: dict[str, Any]) -> None:
    data = encode(spec.HEADER, **fields)
    found = walked(data)
    table = composite(spec.HEADER, **fields).fields
    got = {
        "durable": found.durable == 1,
        "priority": 4 if found.priority == ABSENT else found.priority,
        "ttl": None if found.ttl == ABSENT else found.ttl,
        "first_acquirer": found.first_acquirer == 1,
        "delivery_count": max(found.delivery_count, 0),
    }
    assert got == table


@settings(max_examples=examples(500))
@given(messages(), st.integers(0, 10_000))
def test_message_that_is_cut_ends_with_a_whole_section_or_is_refused(message: dict[int, list[bytes]], at: int) -> None:
    data = octets_of(message)
    at %= len(data)
    ends = [0]
    for parts in message.values():
        for part in parts:
            ends.append(ends[-1] + len(part))
    if at in ends[1:]:
        walked(data[:at])
    else:
        with pytest.raises(CodecError):
            walked(data[:at])


@settings(max_examples=examples(1500))
@given(messages(), st.integers(0, 10_000), st.binary(min_size=1, max_size=2))
def test_sections_that_pass_are_described_values_of_the_right_contents(
    message: dict[int, list[bytes]], at: int, octets: bytes
) -> None:
    data = bytearray(octets_of(message))
    at %= len(data)
    data[at : at + len(octets)] = octets
    try:
        found = walked(bytes(data))
    except CodecError:
        return
    assert found.end == len(data)
    reader = ValueReader(bytes(data))
    reason = ""
    try:
        while reader.remaining():
            assert isinstance(reader.value(), Described)
    except CodecError as error:
        reason = error.reason
    assert reason == "" or "twice" in reason  # Equal keys are found when they are read.


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        ("", "a message without a section"),
        ("41", "a composite or section must begin with its descriptor"),
        ("005379 40", "no section has the descriptor 0x79"),
        ("005310 45", "no section has the descriptor 0x10"),
        ("00a30178 45", "no section has the descriptor 0x0"),
        (DATA + "005370 45", "a message has a section header after data"),
        ("005370 45 005370 45", "a message has two sections header"),
        ("005377 40 005377 40", "a message has two sections amqp-value"),
        (DATA + "005377 40", "a message has a section amqp-value after data"),
        (DATA + "005376 45", "a message has a section amqp-sequence after data"),
        ("005378 c10100" + DATA, "a message has a section data after footer"),
        ("005370 c1 01 00", "header: its fields are no list"),
        ("005370 c0 02 01 43", "header: durable: it must be of type boolean, not a uint"),
        ("005370 c0 07 06 404040404040", "header: 6 fields, where it has 5"),
        ("005370 c0 0a 03 40 40 70 00000001", "header: "),
        ("005372 45", "message-annotations: its value, or the key of an entry, is of a type"),
        ("005372 c1 05 02 a10161 40", "message-annotations: its value, or the key of an entry, is of a type"),
        ("005372 c1 05 02 a301ff 40", "message-annotations: a symbol is not ASCII"),
        ("005373 c0 02 01 41", "properties: message-id: it must be a ulong, uuid, binary or string"),
        ("005373 c0 03 02 4041", "properties: user-id: it must be of type binary, not a boolean"),
        ("005373 c0 0f 0e" + "40" * 14, "properties: 14 fields, where it has 13"),
        ("005373 c0 04 01 a101ff", "properties: message-id: a string is not UTF-8"),
        ("005374 c1 05 02 a30161 40", "application-properties: its value, or the key of an entry, is of a type"),
        ("005374 c1 03 02 40 40", "application-properties: its value, or the key of an entry, is of a type"),
        ("005375 a10141", "data: its value, or the key of an entry, is of a type that it may not have"),
        ("005375 a00541", "data: a binary needs 5 bytes where 1 are left"),
        ("005376 c10100", "amqp-sequence: its value"),
        ("005377", "amqp-value: a value ends before its format code"),
        ("005377 a101ff", "amqp-value: a string is not UTF-8"),
        ("005377 " + "00" * 40, "amqp-value: a value lies more than 32 deep"),
        (DATA + "ff", "a composite or section must begin with its descriptor"),
    ],
)
def test_malformed_message_is_refused_with_a_reason(octets: str, reason: str) -> None:
    with pytest.raises(CodecError) as caught:
        walked(octets)
    assert str(caught.value).startswith(reason)


def test_message_without_a_body_passes_and_its_body_is_empty() -> None:
    found = walked("005370 45")
    assert (found.body_code, found.body_at, found.body_end) == (ABSENT, 4, 4)
    found = walked("005370 45 005378 c10100")
    assert (found.body_code, found.body_at, found.body_end, found.footer) == (ABSENT, 4, 4, 7)


def test_symbolic_descriptors_are_sections_too() -> None:
    data = b"\x00\xa3\x10amqp:data:binary\xa0\x01A"
    found = walked(data)
    assert (found.body_code, found.body_at, found.body_end) == (spec.DATA, 0, len(data))


@pytest.mark.parametrize(
    ("octets", "end"),
    [
        ("005370 45", 4),
        ("005370 c0 02 01 41", 7),
        ("005370 d0 00000005 00000001 41", 13),
        ("00 80 0000000000000070 45", 11),
        ("00 a3 10 616d71703a6865616465723a6c697374 45", 20),
        ("00 80 0000000000000073 45", 0),
        ("005373 45", 0),
    ],
)
def test_end_of_the_header_in_every_form(octets: str, end: int) -> None:
    data = bytes.fromhex(octets + DATA)
    assert header_end(data) == end == walked(data).header_end


@settings(max_examples=examples(200))
@given(st.lists(st.binary(max_size=300), min_size=1, max_size=4))
def test_data_sections_are_put_together(parts: list[bytes]) -> None:
    data = b"".join(section(spec.DATA, part) for part in parts)
    found = walked(data + section(spec.FOOTER, {}))
    assert joined_data(data, found) == b"".join(parts)
    assert data_octets(data, found) == sum(len(part) for part in parts)


def test_positions_of_the_message_before_are_forgotten() -> None:
    found = walked("005370 c0 02 01 41 005372 c10100 005373 45 005374 c10100" + DATA + "005378 c10100")
    assert found.durable == 1
    found.walk(bytes.fromhex(DATA), 0, 6)
    assert [found.durable, found.message_annotations, found.properties, found.application_properties, found.footer] == (
        [ABSENT] * 5
    )
    assert (found.annotated_at, found.body_at, found.body_end) == (0, 0, 6)


@settings(max_examples=examples(300))
@given(amqp10_strategies.arguments(PROPERTIES))
def test_property_is_found_at_its_position(fields: dict[str, Any]) -> None:
    data = encode(spec.PROPERTIES, **fields)
    found = walked(data)
    for index, field in enumerate(PROPERTIES.fields):
        at = property_at(data, found.properties, found.end, index)
        if field.name in fields:
            value = decode_value(data, at)[0]
            plain = getattr(value, "value", getattr(value, "text", value))
            given = fields[field.name]
            assert value == given or plain == given
        else:
            assert at == ABSENT


def test_indexes_of_properties_are_those_of_the_table() -> None:
    names = [field.name for field in PROPERTIES.fields]
    assert names.index("message_id") == MESSAGE_ID
    assert names.index("subject") == SUBJECT
    assert names.index("correlation_id") == CORRELATION_ID
    assert names.index("group_sequence") == GROUP_SEQUENCE
    assert names.index("reply_to_group_id") == REPLY_TO_GROUP_ID
    assert property_at(b"", ABSENT, 0, 0) == ABSENT
    assert encode_value(Symbol("a"))


def test_message_of_one_data_section_leaves_nothing_of_the_message_before() -> None:
    used = Sections()
    header = bytes.fromhex("005370 c00201 41") + bytes.fromhex(DATA)
    for data in (header, bytes.fromhex(DATA), bytes.fromhex("005375 a0054142434445"), header):
        fresh = walked(data)
        used.walk(data, 0, len(data))
        assert fields_of(used) == fields_of(fresh)


@pytest.mark.parametrize("flag", ["41", "42"])
@pytest.mark.parametrize("rest", [DATA, "005373 c00401a10161" + DATA, "005372 c10100" + DATA, DATA + DATA, ""])
def test_shortest_header_is_read_as_its_longer_forms(flag: str, rest: str) -> None:
    short, long = f"005370 c00201{flag}", f"005370 d00000000500000001{flag}"
    found, expected = walked(short + rest), walked(long + rest)
    shift = len(bytes.fromhex(long)) - len(bytes.fromhex(short))
    assert found.durable == expected.durable == (flag == "41")
    for name in ("header_end", "annotated_at", "annotations_end", "body_at", "body_end", "end"):
        assert getattr(found, name) == getattr(expected, name) - shift, name
    for name in ("priority", "ttl", "body_code", "footer", "delivery_annotations"):
        assert getattr(found, name) == getattr(expected, name), name


def test_second_header_is_refused_after_the_shortest_one() -> None:
    with pytest.raises(CodecError, match="two sections header"):
        walked("005370 c0020141 005370 c0020141" + DATA)


@settings(max_examples=examples(300))
@given(
    st.booleans(),
    st.integers(0, 255) | st.just(ABSENT),
    amqp10_strategies.uints | st.just(ABSENT),
    st.booleans(),
    st.integers(0, 1000),
)
def test_header_is_that_of_the_table(durable: bool, priority: int, ttl: int, first: bool, count: int) -> None:
    found, _ = decode_composite(header_octets(durable, priority, ttl, first, count))
    assert found == composite(
        spec.HEADER,
        durable=durable,
        priority=None if priority < 0 else priority,
        ttl=None if ttl < 0 else ttl,
        first_acquirer=first,
        delivery_count=count,
    )


@settings(max_examples=examples(500))
@given(messages(), st.dictionaries(st.sampled_from(["x-a", "x-b", "x-opt-c"]), amqp10_strategies.anything, min_size=1))
def test_annotations_are_added_and_all_other_sections_stay(
    message: dict[int, list[bytes]], added: dict[str, Any]
) -> None:
    data = octets_of(message)
    once = with_annotations(data, walked(data), {"x-a": "old"})
    changed = with_annotations(once, walked(once), added)
    found = walked(changed)
    annotations, end = decode_value(changed, int(found.message_annotations))
    before: dict[object, object] = {}
    if spec.MESSAGE_ANNOTATIONS in message:
        described = decode_value(message[spec.MESSAGE_ANNOTATIONS][0])[0]
        assert isinstance(described.value, dict)
        before = described.value
    named: dict[object, object] = {Symbol(key): value for key, value in added.items()}
    assert annotations == {**before, Symbol("x-a"): "old", **named}
    after = {code: parts for code, parts in message.items() if code > spec.MESSAGE_ANNOTATIONS}
    assert changed[end:] == octets_of(after)
    hop = {code: parts for code, parts in message.items() if code < spec.MESSAGE_ANNOTATIONS}
    assert changed.startswith(octets_of(hop))


def test_annotations_that_cannot_be_encoded_are_refused() -> None:
    data = encode_value(Described(ulong(spec.AMQP_VALUE), None))
    with pytest.raises(CodecError):
        with_annotations(data, walked(data), {"ü": 1})
    with pytest.raises(CodecError):
        with_annotations(data, walked(data), {"x-a": object()})


def test_text_of_a_symbol_in_both_forms_and_of_no_other_key() -> None:
    assert symbol_text(encode_value(Symbol("x-a"))) == b"x-a"
    assert symbol_text(encode_value(Symbol("x" * 300))) == b"x" * 300
    assert symbol_text(encode_value(ulong(5))) not in (b"x-a", b"")


def test_header_of_the_first_delivery_is_constant() -> None:
    assert header_octets(True) is header_octets(True)
    found = Sections()
    found.walk(header_octets(False), 0, len(header_octets(False)))
    assert (found.durable, found.first_acquirer) == (0, 1)
