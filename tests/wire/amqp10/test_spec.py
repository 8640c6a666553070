"""The table of composites against the specification."""

from __future__ import annotations

import pytest

from penstock.wire.amqp10 import spec, values
from penstock.wire.amqp10.spec import ANY, BY_SYMBOL, CODES_BY_SYMBOL, COMPOSITES, MESSAGE_ID, ROLE
from penstock.wire.amqp10.value_walk import KINDS
from penstock.wire.amqp10.values import Symbol

NUMBERS = {
    "open": 10,
    "begin": 8,
    "attach": 14,
    "flow": 11,
    "transfer": 11,
    "disposition": 6,
    "detach": 3,
    "end": 1,
    "close": 1,
    "error": 3,
    "header": 5,
    "properties": 13,
    "received": 2,
    "accepted": 0,
    "rejected": 1,
    "released": 0,
    "modified": 3,
    "source": 11,
    "target": 7,
    "delete-on-close": 0,
    "delete-on-no-links": 0,
    "delete-on-no-messages": 0,
    "delete-on-no-links-or-messages": 0,
    "coordinator": 1,
    "declare": 1,
    "discharge": 2,
    "declared": 1,
    "transactional-state": 2,
    "sasl-mechanisms": 1,
    "sasl-init": 3,
    "sasl-challenge": 1,
    "sasl-response": 1,
    "sasl-outcome": 2,
}
"""How many fields each composite has in the specification."""
MANDATORY = {
    "open": ["container-id"],
    "begin": ["next-outgoing-id", "incoming-window", "outgoing-window"],
    "attach": ["name", "handle", "role"],
    "flow": ["incoming-window", "next-outgoing-id", "outgoing-window"],
    "transfer": ["handle"],
    "disposition": ["role", "first"],
    "detach": ["handle"],
    "error": ["condition"],
    "received": ["section-number", "section-offset"],
    "discharge": ["txn-id"],
    "declared": ["txn-id"],
    "transactional-state": ["txn-id"],
    "sasl-mechanisms": ["sasl-server-mechanisms"],
    "sasl-init": ["mechanism"],
    "sasl-challenge": ["challenge"],
    "sasl-response": ["response"],
    "sasl-outcome": ["code"],
}


def test_composites_have_as_many_fields_as_in_the_specification() -> None:
    assert {each.name: len(each.fields) for each in COMPOSITES.values()} == NUMBERS


def test_mandatory_fields_are_those_of_the_specification() -> None:
    found = {each.name: [field.title() for field in each.fields if field.mandatory] for each in COMPOSITES.values()}
    assert {name: fields for name, fields in found.items() if fields} == MANDATORY


def test_fields_of_composites_have_a_type_that_the_codec_knows() -> None:
    for each in COMPOSITES.values():
        for field in each.fields:
            assert field.kind in {*KINDS, ANY, ROLE, MESSAGE_ID}, field.name
            assert field.kind != ""
            if field.kind == ROLE:
                assert any(field.role in other.provides for other in COMPOSITES.values()), field.role
            if field.multiple:
                assert field.kind == values.SYMBOL
            assert not (field.mandatory and field.default is not None)


@pytest.mark.parametrize(
    ("composite", "defaults"),
    [
        (spec.OPEN, {"max_frame_size": 2**32 - 1, "channel_max": 65535}),
        (spec.BEGIN, {"handle_max": 2**32 - 1}),
        (spec.ATTACH, {"snd_settle_mode": 2, "rcv_settle_mode": 0, "incomplete_unsettled": False}),
        (spec.HEADER, {"durable": False, "priority": 4, "first_acquirer": False, "delivery_count": 0}),
        (spec.TARGET, {"durable": 0, "expiry_policy": "session-end", "timeout": 0, "dynamic": False}),
    ],
)
def test_defaults_are_those_of_the_specification(composite: int, defaults: dict[str, object]) -> None:
    found = {field.name: field.default for field in COMPOSITES[composite].fields if field.default is not None}
    assert found == defaults


def test_descriptors_are_known_by_number_and_by_symbol() -> None:
    assert BY_SYMBOL[Symbol("amqp:open:list")].code == spec.OPEN == 0x10
    assert CODES_BY_SYMBOL[Symbol("amqp:data:binary")] == spec.DATA == 0x75
    assert CODES_BY_SYMBOL[Symbol("amqp:amqp-value:*")] == spec.AMQP_VALUE
    assert CODES_BY_SYMBOL[Symbol("amqp:application-properties:map")] == spec.APPLICATION_PROPERTIES
