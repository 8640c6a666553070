"""Messages of AMQP 1.0 as deliveries with the properties of AMQP 0-9-1.

`penstock.wire.amqp10.neutral_properties` has the table of properties. The body is that of the data sections, put
together, or the octets of an amqp-value that is a string, symbol or binary. Every other body stays in the encoding of
AMQP 1.0, with all its sections; the type of all but data is ``amqp-1.0``.
"""

from typing import Final

from penstock.client import Delivery
from penstock.wire.amqp10 import sections as at
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.field_cursor import ABSENT, FieldCursor
from penstock.wire.amqp10.format_codes import BINARY8, STRING8, SYMBOL8
from penstock.wire.amqp10.malformed import CodecError
from penstock.wire.amqp10.map_walk import text_at
from penstock.wire.amqp10.neutral_properties import annotations_of, properties_of
from penstock.wire.amqp10.sections import Sections, joined_data, property_at
from penstock.wire.amqp10.values import Symbol
from pyspark_amqp.amqp10.corrections import corrected

_EXCHANGE, _ROUTING_KEY = Symbol("x-exchange"), Symbol("x-routing-key")
_SMALL: Final = (BINARY8, STRING8, SYMBOL8)
_LARGE: Final = tuple(code | 0x10 for code in _SMALL)
"""Format codes of values that are octets: with a size of one octet, and of four."""


def delivery_of(message: bytes, queue: str, tag: int) -> Delivery:
    """Return a message as a delivery. Raises CodecError unless it is one."""
    sections = Sections()
    try:
        sections.walk(message, 0, len(message))
    except CodecError:
        message = corrected(message)
        sections.walk(message, 0, len(message))
    head = message[: sections.body_at]
    annotations = annotations_of(head, sections)
    routing_key = annotations.get(_ROUTING_KEY)
    # A header that does not say who has acquired the message leaves open that somebody has (section 3.2.1).
    redelivered = sections.delivery_count > 0 or sections.first_acquirer != 1
    return Delivery(
        consumer_tag=queue,
        delivery_tag=tag,
        redelivered=redelivered,
        exchange=_text(annotations.get(_EXCHANGE)),
        routing_key=_subject(head, sections) if routing_key is None else _text(routing_key),
        message_count=None,
        properties=properties_of(head, sections),
        body=body_of(message, sections),
    )


def body_of(message: bytes, sections: Sections) -> bytes:
    """Return the body of a message whose sections were found; see the module."""
    if sections.body_code == spec.DATA:
        return joined_data(message, sections)
    if sections.body_code == spec.AMQP_VALUE:
        cursor = FieldCursor()
        cursor.open(message, sections.body_at, sections.body_end)
        pos = cursor.pos
        if message[pos] in _SMALL:
            return message[pos + 2 : sections.body_end]
        if message[pos] in _LARGE:
            return message[pos + 5 : sections.body_end]
    return message[sections.body_at : sections.body_end]


def _text(value: object) -> str:
    return value.text if isinstance(value, Symbol) else value if isinstance(value, str) else ""


def _subject(head: bytes, sections: Sections) -> str:
    pos = property_at(head, sections.properties, len(head), at.SUBJECT)
    return "" if pos == ABSENT else text_at(head, pos) or ""
