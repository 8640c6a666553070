"""Attach: links for the termini that a peer asks for (section 2.6.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from penstock.core.consume.consumer_settings import ConsumerSettings
from penstock.core.consume.outcome import Outcome
from penstock.core.queue.queue import Queue
from penstock.errors import BrokerError, InvalidField, NotImplementedHere
from penstock.protocols.amqp10.addresses import parse_source, parse_target, source_node
from penstock.protocols.amqp10.delivery_outcomes import outcome_of
from penstock.protocols.amqp10.error_scopes import error_composite
from penstock.protocols.amqp10.incoming_link import IncomingLink
from penstock.protocols.amqp10.link import MIXED, UNSETTLED
from penstock.protocols.amqp10.outgoing_link import OutgoingLink
from penstock.protocols.amqp10.target import target_of
from penstock.wire.amqp10.composite import Composite, composite
from penstock.wire.amqp10.spec import ATTACH, DETACH, SOURCE

if TYPE_CHECKING:
    from penstock.protocols.amqp10.session import AmqpSession

OUTCOMES = ["amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list"]
"""Outcomes that we support, as receiver and as sender."""


def on_attach(session: AmqpSession, attach: Composite) -> None:
    """Attach a link, or answer with a null terminus and detach it at once with the error (section 2.6.3)."""
    sends = not attach.flag("role")
    handle = session.links.free_handle(attach.number("handle"))
    try:
        if sends:
            _attach_incoming(session, attach)
        else:
            _attach_outgoing(session, attach)
    except BrokerError as error:
        session.connection.services.log(
            f"[{session.name}] link '{attach.text('name')}' refused: {error.condition}: {error}"
        )
        session.send(_answer(attach, handle, None, None))
        session.send(composite(DETACH, handle=handle, closed=True, error=error_composite(error)))
        session.links.ignored.add(attach.number("handle"))


def _answer(attach: Composite, handle: i64, source: object, target: object, **fields: object) -> Composite:
    receives = not attach.flag("role")
    mode = attach.number("snd_settle_mode")
    if not receives:
        fields.setdefault("initial_delivery_count", 0)
        if mode == MIXED:
            mode = UNSETTLED  # We settle all of a link's deliveries when we send them, or none.
    return composite(
        ATTACH,
        name=attach.text("name"),
        handle=int(handle),
        role=receives,
        snd_settle_mode=mode,
        rcv_settle_mode=attach.number("rcv_settle_mode"),
        source=source,
        target=target,
        **fields,
    )


def _attach_incoming(session: AmqpSession, attach: Composite) -> None:
    terminus = attach.inner("target")
    if terminus is None:
        raise NotImplementedHere("attach without a target")
    address = parse_target(terminus.text("address"), terminus.texts("capabilities"))
    target = target_of(session.vhost, session.connection.user, session.engine.format, address)
    if attach.fields["initial_delivery_count"] is None:
        raise InvalidField("attach of a sender without initial-delivery-count")
    link = IncomingLink(session, attach, target)
    session.links.add(link)
    session.send(
        _answer(
            attach,
            link.handle,
            attach.inner("source"),
            terminus,
            max_message_size=int(link.max_message_size),
        )
    )
    link.grant()


def _attach_outgoing(session: AmqpSession, attach: Composite) -> None:
    terminus = attach.inner("source")
    if terminus is None:
        raise NotImplementedHere("attach without a source")
    queue = _queue(session, terminus)
    session.connection.services.deliver_first(queue)
    link = OutgoingLink(session, attach, queue, _default_outcome(terminus))
    session.broker.consume(session, link.consumer, ConsumerSettings(queue.settings, {}))
    session.links.add(link)
    if len(session.consumers) == 1:
        session.connection.review_hold_bound()
    session.send(_answer(attach, link.handle, _granted(terminus), attach.inner("target")))


def _queue(session: AmqpSession, terminus: Composite) -> Queue:
    """Return the queue of a source. Raises BrokerError."""
    address = parse_source(terminus.text("address"), terminus.texts("capabilities"))
    node = source_node(address, session.vhost)
    if not node.queue:
        raise NotImplementedHere(f"address '{address.text}' of a source names an exchange")
    return session.vhost.queue(node.queue, session.connection)


def _granted(terminus: Composite) -> Composite:
    fields = dict(terminus.fields)
    fields["outcomes"] = OUTCOMES
    return composite(SOURCE, **fields)


def _default_outcome(terminus: Composite) -> Outcome:
    state = terminus.inner("default_outcome")
    return Outcome.RELEASED if state is None else outcome_of(state.code, state)
