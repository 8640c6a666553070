"""Delays that the annotations of a message ask for."""

from __future__ import annotations

from typing import Final

from penstock.content.delay import DELAY_MS_MAX, checked_delay_ms
from penstock.core.publish.context import PublishContext
from penstock.core.routing.route import Route
from penstock.errors import InvalidField, NotImplementedHere, PreconditionFailed
from penstock.texts import worded
from penstock.wire.amqp10.sections import Sections
from penstock.wire.amqp10.value_reader import ValueReader
from penstock.wire.amqp10.value_walk import UNFIT, value_at
from penstock.wire.amqp10.values import Typed

DELAY: Final = b"x-opt-delivery-delay"
"""Annotation with a delay in milliseconds."""
TIMES: Final = (b"x-opt-delivery-time", b"x-opt-scheduled-enqueue-time")
"""Annotations with the time of delivery in milliseconds since 1970; these are stronger than a delay."""
_OPTIONAL: Final = b"x-opt-"


def delayed_route(route: Route, data: bytes, sections: Sections, broker: PublishContext) -> Route:
    """Return the route of a message with annotations, whose sections lie in `data`: a delayed one if they ask for it.

    Raises InvalidField for an invalid delay, NotImplementedHere for a request to the broker.
    """
    place = sections.message_annotations
    if data.find(_OPTIONAL, place, sections.annotations_end) < 0:
        return route
    due = _due(data, sections, broker)
    if due <= broker.now:
        return route
    if route.control:
        raise NotImplementedHere("a request to the broker with a delay: it is handled at once or not at all")
    return route.delayed(due)


def _due(data: bytes, sections: Sections, broker: PublishContext) -> float:
    """Return when a message is due (monotonic seconds); a past time for a message without a delay."""
    for key in TIMES:
        value = _value(data, sections, key)
        if value is not None:
            if not isinstance(value, int) or isinstance(value, bool) or value > DELAY_MS_MAX:
                raise InvalidField(
                    f"annotation {key.decode()} is {worded(value)}; a time of delivery is in milliseconds since 1970, "
                    f"at most {DELAY_MS_MAX}"
                )
            return value / 1000 - broker.wall_offset
    value = _value(data, sections, DELAY)
    if value is None:
        return -1.0
    try:
        delay_ms = checked_delay_ms(f"annotation {DELAY.decode()}", value)
    except PreconditionFailed as error:
        raise InvalidField(str(error)) from None
    return broker.now + delay_ms / 1000 if delay_ms > 0 else -1.0


def _value(data: bytes, sections: Sections, key: bytes) -> object:
    at = value_at(data, sections.message_annotations, sections.end, key)
    if at == UNFIT:
        return None
    value = ValueReader(data, int(at)).value()
    return value.value if isinstance(value, Typed) else value
