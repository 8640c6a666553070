"""Performatives for a peer that takes only small frames: what may be left out is left out (section 2.7.1)."""

from __future__ import annotations

from typing import Final

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, encode_composite
from penstock.wire.amqp10.frames import HEADER_OCTETS

DESCRIPTION_LETTERS: Final = 40
"""Letters that are left of the description of an error where frames are small."""


def fitted(performative: Composite, max_frame_size: int) -> bytes | None:
    """Return the octets of a performative that fit into a frame of the peer; None if that cannot be.

    Where it does not fit as it is, these are left out: properties, the unsettled map of an attach (which becomes
    incomplete), and the map and the end of the description of an error.
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
