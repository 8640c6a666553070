"""Malformed performatives of a session: the smallest end that their readable fields permit.

| malformed | ends | where these fields can be read |
|---|---|---|
| attach | the link, which is refused | name, handle and role |
| detach | the link | the handle |
| transfer | the link | the handle, and the delivery-id of a first frame |
| flow | the link | the fields of the session, and the handle |
| disposition | the links of its deliveries | role (receiver), first and last |

All other performatives end their session; frames, `open`, `begin`, `end` and `close` end the connection. The readable
fields are those before the first field that cannot be read.
"""

from __future__ import annotations

from typing import Final

from penstock.errors import BrokerError
from penstock.protocols.amqp10.attach import refuse_attach
from penstock.protocols.amqp10.error_scopes import MalformedPerformative
from penstock.protocols.amqp10.link import LINK_ATTACHED, Link
from penstock.protocols.amqp10.session import AmqpSession
from penstock.wire.amqp10.composite import composite, leading_fields
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.spec import ATTACH, DETACH, DISPOSITION, FLOW, TRANSFER
from penstock.wire.amqp10.values import CodecError

OF_SESSION: Final = frozenset({ATTACH, DETACH, DISPOSITION, FLOW, TRANSFER})
"""Performatives whose malformed fields end a smaller scope than the connection."""


def on_malformed(session: AmqpSession, code: int, data: bytes, pos: int, end: int, malformed: CodecError) -> None:
    """Handle the malformed performative at `pos`, one of `OF_SESSION`. Raises BrokerError to close the connection."""
    error = MalformedPerformative(malformed)
    fields = leading_fields(data, pos, end)
    try:
        if code == ATTACH:
            ended = _on_attach(session, fields, error)
        elif code == DISPOSITION:
            ended = _on_disposition(session, fields, error)
        else:
            ended = _on_link(session, code, fields, error)
    except BrokerError as other:
        session.on_error(other, code)
        return
    if not ended:
        session.fail(error)


def _on_attach(session: AmqpSession, fields: dict[str, object], error: BrokerError) -> bool:
    """Refuse a link. Return False if its name, handle or role cannot be read."""
    if not {"name", "handle", "role"} <= fields.keys():
        return False
    attach = composite(ATTACH, name=fields["name"], handle=fields["handle"], role=fields["role"])
    session.links.check_free(attach)
    refuse_attach(session, attach, error)
    return True


def _on_disposition(session: AmqpSession, fields: dict[str, object], error: BrokerError) -> bool:
    """Detach the receivers of the disposition's deliveries. Return False if there are none, or they are not known."""
    first = fields.get("first")
    last = fields.get("last", first)
    if fields.get("role") is not True or not isinstance(first, int) or "last" not in fields:
        return False
    return session.detach_receivers(first, last if isinstance(last, int) else first, error)


def _on_link(session: AmqpSession, code: int, fields: dict[str, object], error: BrokerError) -> bool:
    """Detach the link of a detach, transfer or flow. Return False if the link is not known."""
    handle = _number(fields, "handle")
    link = session.links.by_handle.get(handle)
    if link is None and handle not in session.links.ignored:
        return False
    if code == TRANSFER and not _count_transfer(session, link, fields):
        return False
    if code == FLOW:
        session.windows.take(
            _number(fields, "next_incoming_id"), _number(fields, "incoming_window"), _number(fields, "next_outgoing_id")
        )
    if link is None:  # The link was refused, and its frames are ignored until its detach.
        if code == DETACH:
            session.links.ignored.discard(handle)
        return True
    if link.state == LINK_ATTACHED:
        link.detach(error)
    if code == DETACH:
        session.forget_link(link)
    return True


def _count_transfer(session: AmqpSession, link: Link | None, fields: dict[str, object]) -> bool:
    """Count a frame in its session.

    Return False if its delivery is not known, so that later frames cannot be counted.
    """
    delivery_id = _number(fields, "delivery_id")
    if delivery_id == ABSENT and not (link is not None and link.is_arriving() and "delivery_id" in fields):
        return False
    session.windows.count_transfer()
    session.ignore_delivery(delivery_id)
    return True


def _number(fields: dict[str, object], name: str) -> int:
    value = fields.get(name)
    return value if isinstance(value, int) else ABSENT
