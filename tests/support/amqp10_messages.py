"""Messages of AMQP 1.0 in parts, decoded section by section: what a client would show."""

from __future__ import annotations

from typing import NamedTuple

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.value_reader import decode_value
from penstock.wire.amqp10.values import Described, Symbol, Typed
from tests.support.amqp10_dialogue import Heard


class DecodedMessage(NamedTuple):
    """Sections of a message; fields that are null are left out."""

    header: dict[str, object]
    annotations: dict[str, object]
    properties: dict[str, object]
    application: dict[str, object]
    body: list[tuple[str, object]]
    """Name and value of each section of the body."""
    footer: dict[str, object]


def delivered(heard: list[Heard]) -> list[bytes]:
    """Return the messages in transfers of one frame each."""
    return [each.payload for each in heard if each.name == "transfer"]


def last_octets(heard: list[Heard]) -> list[bytes]:
    """Return the last octet of each message, which tells messages with brief bodies apart."""
    return [octets[-1:] for octets in delivered(heard)]


def plain(value: object) -> object:
    """Return a symbol or a number without its type."""
    if isinstance(value, Symbol):
        return value.text
    if isinstance(value, Typed):
        return value.value
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    return value


def decode_message(octets: bytes) -> DecodedMessage:
    """Return the sections of a message."""
    found: dict[object, Described] = {}
    body: list[tuple[str, object]] = []
    at = 0
    while at < len(octets):
        section, at = decode_value(octets, at)
        assert isinstance(section, Described)
        code = plain(section.descriptor)
        assert isinstance(code, int)
        if spec.DATA <= code < spec.FOOTER:
            body.append((spec.SECTIONS[code], section.value))
        else:
            found[code] = section
    return DecodedMessage(
        _fields(found.get(spec.HEADER), spec.HEADER),
        _entries(found.get(spec.MESSAGE_ANNOTATIONS)),
        _fields(found.get(spec.PROPERTIES), spec.PROPERTIES),
        _entries(found.get(spec.APPLICATION_PROPERTIES)),
        body,
        _entries(found.get(spec.FOOTER)),
    )


def _fields(section: Described | None, code: int) -> dict[str, object]:
    values = [] if section is None else section.value
    assert isinstance(values, list)
    names = [field.name for field in spec.COMPOSITES[code].fields]
    return {name: value for name, value in zip(names, values, strict=False) if value is not None}


def _entries(section: Described | None) -> dict[str, object]:
    if section is None:
        return {}
    assert isinstance(section.value, dict)
    return {str(plain(key)): value for key, value in section.value.items()}
