"""Attach: links for the termini that a peer asks for (section 2.6.3)."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.connections import authorization
from penstock.connections.audit_trail import audit_refusal
from penstock.core.consume.outcome import Outcome
from penstock.core.queue.queue import Queue
from penstock.errors import BrokerError, InvalidField, NotImplementedHere, ResourceError
from penstock.protocols.amqp10.addresses import (
    TOPIC_CAPABILITY,
    AddressKind,
    Node,
    create_missing_queue,
    parse_source,
    parse_target,
    source_node,
)
from penstock.protocols.amqp10.delivery_outcomes import outcome_of
from penstock.protocols.amqp10.dynamic_nodes import CreatedNode, DynamicNode, LinkNode, SenderOfNode
from penstock.protocols.amqp10.error_scopes import error_composite
from penstock.protocols.amqp10.incoming_link import IncomingLink
from penstock.protocols.amqp10.link import FIRST, MIXED, SECOND, SETTLED, UNSETTLED, link_key
from penstock.protocols.amqp10.link_credit import link_properties, sender_fields
from penstock.protocols.amqp10.outgoing_link import OutgoingLink
from penstock.protocols.amqp10.request_links import (
    COMMIT_RETRY,
    MESSAGE_OCTETS_MAX,
    REQUEST_OCTETS_MAX,
    RESPONSES,
    CoordinatorLink,
    ManagementLink,
    response_queue,
)
from penstock.protocols.amqp10.session import AmqpSession
from penstock.protocols.amqp10.source_filters import SourceFilters
from penstock.protocols.amqp10.subscriptions import EXPIRES_NEVER, Subscription, SubscriptionRequest, find_subscription
from penstock.protocols.amqp10.target import target_of
from penstock.wire.amqp10.composite import Composite, composite
from penstock.wire.amqp10.neutral_addresses import queue_address
from penstock.wire.amqp10.spec import ATTACH, COORDINATOR, DETACH, SOURCE
from penstock.wire.amqp10.values import Symbol

LINKS_MAX: Final = 10_000
"""Most links of a connection, 3 to 4 KiB each."""
OUTCOMES = ["amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list"]
"""Outcomes that the broker supports, as receiver and as sender."""
UNSETTLED_STATE = 2
"""Terminus durability of a durable subscription (section 3.5.5)."""

PAIRED: Final[dict[object, object]] = {Symbol("paired"): True}
"""Properties of the two links of a pair (AMQP Request-Response Messaging with Link Pairing 1.0, section 2)."""


def on_attach(session: AmqpSession, attach: Composite) -> None:
    """Act on an attach. Raises BrokerError for errors that close the connection."""
    try:
        session.links.check_free(attach)
        _attach(session, attach)
    except BrokerError as error:
        session.on_error(error, ATTACH)


def _attach(session: AmqpSession, attach: Composite) -> None:
    """Attach a link, or refuse it."""
    sends = not attach.flag("role")
    try:
        if session.endpoint.link_count >= LINKS_MAX:
            raise ResourceError(f"the connection has {LINKS_MAX} links, the most it may have")
        if sends:
            _attach_incoming(session, attach)
        else:
            _attach_outgoing(session, attach)
    except BrokerError as error:
        refuse_attach(session, attach, error)


def refuse_attach(session: AmqpSession, attach: Composite, error: BrokerError) -> None:
    """Answer an attach with a null terminus, and detach the link at once with the error (section 2.6.3)."""
    handle = session.links.free_handle(attach.number("handle"))
    audit_refusal(session.connection, "attach", error)
    connection = session.connection
    connection.services.log_request_refused(connection, f"{session.name}/link:{attach.text('name')}", error)
    session.send(_answer(attach, handle, None, None))
    session.send(composite(DETACH, handle=int(handle), closed=True, error=error_composite(error)))
    session.links.ignored.add(attach.number("handle"))


def _answer(attach: Composite, handle: i64, source: object, target: object, **fields: object) -> Composite:
    receives = not attach.flag("role")
    mode = attach.number("snd_settle_mode")
    if not receives:
        fields.setdefault("initial_delivery_count", 0)
        if mode == MIXED:
            mode = UNSETTLED  # The broker settles all deliveries of a link when they are sent, or none.
    fields.setdefault("snd_settle_mode", mode)
    fields.setdefault("rcv_settle_mode", attach.number("rcv_settle_mode"))
    return composite(
        ATTACH,
        name=attach.text("name"),
        handle=int(handle),
        role=receives,
        source=source,
        target=target,
        **fields,
    )


def _attach_incoming(session: AmqpSession, attach: Composite) -> None:
    terminus = attach.inner("target")
    if terminus is None:
        raise NotImplementedHere("attach without a target")
    if attach.fields["initial_delivery_count"] is None:
        raise InvalidField("attach of a sender without initial-delivery-count")
    if terminus.code == COORDINATOR:
        _attach_coordinator(session, attach)
        return
    created: DynamicNode | None = None
    text = terminus.text("address")
    if terminus.flag("dynamic"):
        created = _dynamic_node(session, terminus)
        text = created.address
    address = parse_target(text, terminus.texts("capabilities"))
    if address.kind is AddressKind.MANAGEMENT:
        _attach_management(session, attach, terminus)
        return
    create_missing_queue(session.vhost, address, session.connection)
    target = target_of(
        session.vhost,
        session.connection.access,
        session.endpoint.format,
        address,
        session.endpoint.targets,
        session.endpoint.origin,
    )
    suspended = session.endpoint.shared.suspended
    suspended.steal(link_key(session, attach))
    link = IncomingLink(session, attach, target)
    fields = _sender_fields(session, link, attach)
    session.links.add_sender(link, link.producer, link.unsent)
    suspended.add(link.key, link)
    if created is not None:
        link.nodes.append(CreatedNode(session.endpoint.shared.nodes, created))
    lasting = None
    if target.node is not None:
        lasting = session.endpoint.shared.nodes.find(session.vhost, target.node.place())
    if lasting is not None:
        link.nodes.append(SenderOfNode(lasting))
    session.send(
        _answer(
            attach,
            link.handle,
            attach.inner("source"),
            _with_address(terminus, text),
            max_message_size=int(link.max_message_size),
            rcv_settle_mode=SECOND if link.second else FIRST,
            **link.resume(attach),
            **fields,
        )
    )


def _sender_fields(session: AmqpSession, link: IncomingLink, attach: Composite) -> dict[str, object]:
    """Return the fields that describe lane and credit. Raises BrokerError after the link has ended."""
    try:
        return sender_fields(session, link.credit, session.endpoint.peer_max_frame_size, attach)
    except BrokerError:
        link.end(False)
        raise


def _attach_coordinator(session: AmqpSession, attach: Composite) -> None:
    suspended = session.endpoint.shared.suspended
    suspended.steal(link_key(session, attach))
    link = CoordinatorLink(session, attach)
    session.links.add(link)
    suspended.add(link.key, link)
    session.connection.review_hold_bound()
    source = attach.inner("source")
    fields: dict[str, object] = {"offered_capabilities": [COMMIT_RETRY]} if link.retries else {}
    session.send(_answer(attach, link.handle, source, link.terminus(), max_message_size=MESSAGE_OCTETS_MAX, **fields))
    link.grant()


def _attach_management(session: AmqpSession, attach: Composite, terminus: Composite) -> None:
    link = ManagementLink(session, attach)
    session.links.add(link)
    fields: dict[str, object] = {"max_message_size": REQUEST_OCTETS_MAX, "properties": PAIRED}
    session.send(_answer(attach, link.handle, attach.inner("source"), terminus, **fields))
    link.grant()


def _attach_outgoing(session: AmqpSession, attach: Composite) -> None:
    terminus = attach.inner("source")
    suspended = session.endpoint.shared.suspended
    filters = SourceFilters(composite(SOURCE) if terminus is None else terminus, session.broker.work)
    node, queue, text = _source(session, attach, terminus, filters)
    is_subscription = isinstance(node, Subscription)
    is_management = queue.name.startswith(RESPONSES)
    if is_subscription or is_management:
        filters.take_messages()  # Qpid JMS asks for `copy` in durable subscriptions; a browser never empties its queue.
    if terminus is None:
        terminus = composite(
            SOURCE, durable=UNSETTLED_STATE, expiry_policy=EXPIRES_NEVER, capabilities=[TOPIC_CAPABILITY]
        )
    session.connection.services.deliver_first(queue)
    link = OutgoingLink(session, attach, queue, _default_outcome(terminus))
    try:
        settings = link.apply_properties(link_properties(attach))
        link.consumer.exclusive = link.consumer.exclusive or attach.inner("source") is None
        link.consumer.scan = filters.scan(session, link.consumer, is_subscription)
        session.broker.consume(session, link.consumer, settings)
    except BrokerError:
        if node is not None:
            node.on_link_ended(False)
        elif is_management:
            session.broker.delete_queue(queue)  # The queue would have ended with its consumer.
        raise
    session.links.add_receiver(link, link.consumer)
    if node is not None:
        link.nodes.append(node)
    if len(session.consumers) == 1:
        session.connection.review_hold_bound()
    granted = _granted(_with_address(terminus, text), filters)
    properties: dict[object, object] | None = PAIRED
    fields: dict[str, object] = {}
    if not is_management:
        properties = link.properties_in_force(settings) or None
        suspended.add(link.key, link)
        fields = link.resume(attach)
    if filters.browses:
        fields["snd_settle_mode"] = SETTLED
    session.send(_answer(attach, link.handle, granted, attach.inner("target"), properties=properties, **fields))


def _source(
    session: AmqpSession, attach: Composite, terminus: Composite | None, filters: SourceFilters
) -> tuple[LinkNode | None, Queue, str]:
    """Return the source's queue and address, and the node to notify when the link ends.

    Raises BrokerError.
    """
    name, container = attach.text("name"), session.endpoint.container
    access = session.connection.access
    suspended, key = session.endpoint.shared.suspended, link_key(session, attach)
    if terminus is not None and not terminus.flag("dynamic"):
        return _addressed_source(session, attach, terminus, filters)
    if terminus is None:
        found = find_subscription(session, container, name, attach.texts("desired_capabilities"))
        authorization.check_delete_queue(access, found.queue.name)  # Closing the link deletes the subscription.
        authorization.check_read_queue(access, found.queue.name)
        found.check_unused()
        suspended.steal(key)
        return found, session.vhost.queue(found.queue.name, session.connection), queue_address(found.queue.name)
    suspended.steal(key)
    created = _dynamic_node(session, terminus)
    if created.queue is not None:
        authorization.check_read_queue(access, created.queue.name)
        return CreatedNode(session.endpoint.shared.nodes, created), created.queue, created.address
    assert created.exchange is not None
    node = Node("", created.exchange.name, "", True)
    request = SubscriptionRequest(session, container, terminus, name, node, filters)
    request.check(None)
    topic = request.subscribe()
    topic.created = CreatedNode(session.endpoint.shared.nodes, created)
    return topic, topic.queue, created.address


def _addressed_source(
    session: AmqpSession, attach: Composite, terminus: Composite, filters: SourceFilters
) -> tuple[LinkNode | None, Queue, str]:
    """Return the node of a source with an address, as `_source`. An attached link of the same name is stolen.

    A refused subscription steals no link. Raises BrokerError.
    """
    suspended, key = session.endpoint.shared.suspended, link_key(session, attach)
    text = terminus.text("address")
    address = parse_source(text, terminus.texts("capabilities"))
    if address.kind is AddressKind.MANAGEMENT:
        return None, response_queue(session), text  # Links to the management node may share a name.
    create_missing_queue(session.vhost, address, session.connection)
    node = source_node(address, session.vhost)
    if node.queue:
        suspended.steal(key)
        authorization.check_read_queue(session.connection.access, node.queue)
        return None, session.vhost.queue(node.queue, session.connection), text
    request = SubscriptionRequest(session, session.endpoint.container, terminus, key[4], node, filters)
    stolen = suspended.attached(key)
    request.check(stolen.consumer if isinstance(stolen, OutgoingLink) else None)
    suspended.steal(key)
    subscription = request.subscribe()
    return subscription, subscription.queue, text


def _dynamic_node(session: AmqpSession, terminus: Composite) -> DynamicNode:
    """Create the node of a dynamic terminus. Raises InvalidField if the terminus has an address too (section 3.5.3)."""
    if terminus.text("address"):
        raise InvalidField(f"a dynamic terminus has the address '{terminus.text('address')}'; it must have none")
    return session.endpoint.shared.nodes.create(session, terminus)


def _with_address(terminus: Composite, address: str) -> Composite:
    return Composite(terminus.spec, {**terminus.fields, "address": address or None})


def _granted(terminus: Composite, filters: SourceFilters) -> Composite:
    fields = dict(terminus.fields)
    fields["outcomes"] = OUTCOMES
    fields["filter"] = filters.granted or None
    return composite(SOURCE, **fields)


def _default_outcome(terminus: Composite) -> Outcome:
    state = terminus.inner("default_outcome")
    return Outcome.RELEASED if state is None else outcome_of(state.code, state)
