"""Scopes that an error ends in AMQP 1.0, and the composite that tells the peer why (section 2.8.14)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from penstock.errors import BrokerError
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite
from penstock.wire.amqp10.values import Symbol

DELIVERY_TAG: Final = Symbol("delivery-tag")
DESCRIPTION_MAX: Final = 320
"""Most octets of a description: with its condition and its performative it fits into the smallest frame (512)."""


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
    spec.DISPOSITION: Scope.SESSION,
    spec.END: Scope.SESSION,
}
"""Scopes that performatives are about; all others are about the connection."""


def delivery_info(tag: bytes) -> dict[object, object]:
    """Return the `info` of an error about a message to the anonymous terminus: the tag of its delivery."""
    return {DELIVERY_TAG: tag}


def scope_of(error: BrokerError, performative: int, has_handle: bool = False) -> Scope:
    """Return the scope that an error ends: its own, or that of the performative at fault if that is larger.

    `performative` is a descriptor (`spec.ATTACH` ...). A flow is about a link if it has a handle.
    """
    own = _BY_NAME[error.ends]
    if performative == spec.FLOW:
        return max(own, Scope.LINK if has_handle else Scope.SESSION)
    return max(own, _OF_PERFORMATIVE.get(performative, Scope.CONNECTION))


def error_composite(error: BrokerError, info: dict[object, object] | None = None) -> Composite:
    """Return an error for detach, end, close and rejected, with `info` as its map (keys are symbols)."""
    description = str(error).encode(errors="replace")[:DESCRIPTION_MAX].decode(errors="ignore")
    return composite(spec.ERROR, condition=error.condition, description=description or None, info=info)
