"""Scopes that an error ends in AMQP 1.0, and the error composite that is sent to the peer (section 2.8.14).

Malformed performatives and messages have the condition chosen by the codec. Optional fields are left out for a peer
that takes only small frames (section 2.7.1).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from penstock.errors import BrokerError, NotImplementedHere
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite, encode_composite
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.frames import HEADER_OCTETS
from penstock.wire.amqp10.sections import Sections
from penstock.wire.amqp10.value_walk import UNFIT, reserved_key, text_at
from penstock.wire.amqp10.values import (
    DECODE_ERROR,
    FRAMING_ERROR,
    INVALID_FIELD,
    NOT_IMPLEMENTED,
    CodecError,
    Symbol,
)

_CODES: Final[dict[str, int]] = {FRAMING_ERROR: 501, DECODE_ERROR: 502, INVALID_FIELD: 406, NOT_IMPLEMENTED: 540}
"""Keys of `errors.CODES` by condition of the codec."""
KEY_LETTERS: Final = 60
"""Characters of a key that an error repeats."""


class MalformedPerformative(BrokerError):
    """A frame or performative that cannot be read. The connection is closed, or a part of it (malformed.py)."""

    def __init__(self, error: CodecError) -> None:
        super().__init__(error.reason)
        self.code = _CODES[error.condition]
        self.finer_condition = error.condition


def check_annotations(data: bytes, sections: Sections) -> None:
    """Check the keys of annotations.

    Raises NotImplementedHere for a reserved key: the broker knows none (section 3.2.10).
    """
    for place in (sections.delivery_annotations, sections.message_annotations):
        if place != ABSENT:
            at = reserved_key(data, place, sections.end)
            if at != UNFIT:
                name = text_at(data, at)
                key = "a number" if name is None else f"'{name[:KEY_LETTERS]}'"
                raise NotImplementedHere(f'an annotation with the reserved key {key}; free ones begin with "x-"')


class MalformedMessage(MalformedPerformative):
    """A message whose sections cannot be read. The delivery of the message is rejected, and the link stays attached."""

    ends = "delivery"


DELIVERY_TAG: Final = Symbol("delivery-tag")
DESCRIPTION_MAX: Final = 320
"""Most bytes of a description: with its condition and performative it fits into the smallest frame (512 bytes)."""


class Scope(IntEnum):
    """Scopes of a connection, from the smallest."""

    DELIVERY = 0
    """One delivery is rejected."""
    LINK = 1
    SESSION = 2
    CONNECTION = 3


_BY_NAME: Final[dict[str, Scope]] = {scope.name.lower(): scope for scope in Scope}
_OF_PERFORMATIVE: Final[dict[int, Scope]] = {
    spec.TRANSFER: Scope.DELIVERY,
    spec.ATTACH: Scope.LINK,
    spec.DETACH: Scope.LINK,
    spec.BEGIN: Scope.SESSION,
    spec.DISPOSITION: Scope.LINK,
    spec.END: Scope.SESSION,
}
"""Scopes of performatives; the scope of all others is the connection."""


def delivery_info(tag: bytes) -> dict[object, object]:
    """Return the `info` of an error about a message to the anonymous terminus: the tag of its delivery."""
    return {DELIVERY_TAG: tag}


def scope_of(error: BrokerError, performative: int, has_handle: bool = False) -> Scope:
    """Return the scope that an error ends: the error's own, or the scope of the performative at fault if that is
    larger.

    `performative` is a descriptor (`spec.ATTACH` ...). The scope of a flow is a link if the flow has a handle.
    """
    own = _BY_NAME[error.ends]
    if performative == spec.FLOW:
        return max(own, Scope.LINK if has_handle else Scope.SESSION)
    return max(own, _OF_PERFORMATIVE.get(performative, Scope.CONNECTION))


def error_composite(error: BrokerError, info: dict[object, object] | None = None) -> Composite:
    """Return an error for detach, end, close and rejected, with `info` as its map (keys are symbols)."""
    description = str(error).encode(errors="replace")[:DESCRIPTION_MAX].decode(errors="ignore")
    return composite(spec.ERROR, condition=error.condition, description=description or None, info=info)


DESCRIPTION_LETTERS: Final = 40
"""Characters that remain of an error's description if frames are small."""


def fitted(performative: Composite, max_frame_size: int) -> bytes | None:
    """Return the bytes of a performative that fit into a frame of the peer; None if even the shortest form does not
    fit.

    A performative that is too large loses its properties, the unsettled map of an attach (which becomes incomplete),
    and the map and the end of the description of an error.
    """
    octets = encode_composite(performative)
    if len(octets) + HEADER_OCTETS <= max_frame_size:
        return octets
    fields = dict(performative.fields)
    for name in ("properties", "unsettled"):
        if name in fields:
            fields[name] = None
    if performative.code == spec.ATTACH and performative.fields["unsettled"] is not None:
        fields["incomplete_unsettled"] = True
    if "error" in fields:
        fields["error"] = _short(performative.inner("error"))
    state = performative.inner("state") if "state" in fields else None
    if state is not None and state.code == spec.REJECTED:
        fields["state"] = Composite(state.spec, {"error": _short(state.inner("error"))})
    octets = encode_composite(Composite(performative.spec, fields))
    return octets if len(octets) + HEADER_OCTETS <= max_frame_size else None


def _short(error: Composite | None) -> Composite | None:
    """Return an error with its condition and the beginning of its description."""
    if error is None:
        return None
    description = error.text("description")[:DESCRIPTION_LETTERS]
    return Composite(error.spec, {**error.fields, "description": description or None, "info": None})
