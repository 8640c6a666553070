"""Comparison of a performative that was read in place with the composite that the table describes."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.wire.amqp10.composite import Composite, decode_performative
from penstock.wire.amqp10.field_cursor import ABSENT, NONE, FieldCursor
from penstock.wire.amqp10.spec import ACCEPTED, MODIFIED
from penstock.wire.amqp10.values import CodecError, Described


def read_both_ways(into: Any, code: int, data: bytes) -> tuple[Any, Composite, int] | None:
    """Read a performative in place and by the table; return both, and where the payload begins.

    Return None if both refuse it: with the same words.
    """
    found, error = read(into, code, data)
    if error is None:
        table, payload = decode_performative(data)
        return found, table, payload
    with pytest.raises(CodecError) as caught:
        decode_performative(data)
    assert (str(caught.value), caught.value.condition) == error
    return None


def changed(data: bytes, at: int, octets: bytes) -> list[bytes]:
    """Return a performative with octets changed after its descriptor, and cut off there."""
    other = bytearray(data)
    at = max(3, at % len(other))
    other[at : at + len(octets)] = octets
    return [bytes(other), bytes(other[:at])]


def read(into: Any, code: int, data: bytes) -> tuple[Any, tuple[str, str] | None]:
    """Read a performative in place; return it with the reason and condition of its error."""
    cursor = FieldCursor()
    assert cursor.open(data, 0, len(data)) == code
    try:
        into.read(cursor, data, 0, len(data))
    except CodecError as error:
        return into, (error.reason, error.condition)
    return into, None


def numbers(found: Any, *names: str) -> dict[str, int]:
    """Return the numbers of a performative, `ABSENT` for those that it does not have."""
    if isinstance(found, Composite):
        names = tuple(field.name for field in found.spec.fields if field.kind in ("uint", "ubyte"))
        return {name: found.number(name, ABSENT) for name in names}
    return {name: getattr(found, name) for name in names}


def states(found: Any) -> tuple[int, object]:
    """Return descriptor and value of a delivery state, in the form that a cursor gives it."""
    if not isinstance(found, Composite):
        return found.state_code, found.state
    state = found.fields["state"]
    if state is None:
        return ABSENT, None
    if isinstance(state, Described):
        return NONE, state
    assert isinstance(state, Composite)
    bare = all(value is None for value in state.fields.values())
    return state.code, None if bare and ACCEPTED <= state.code <= MODIFIED else state
