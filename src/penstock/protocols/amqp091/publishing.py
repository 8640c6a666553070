"""Publishing on a channel: properties that the broker acts on, confirms and returns, and direct reply-to.

Properties are read and checked only if the flags of the content header announce them.

Direct reply-to (RabbitMQ's extension): replies go straight to the requesting channel, without a declared queue.

A client consumes from `amq.rabbitmq.reply-to` without acknowledgements and sets the same name as `reply_to` of its
requests. The broker replaces that name by an address of the channel. Servers publish their replies to the address
through the default exchange. Behind the address is an unlisted queue that is deleted with its consumer. A requester
that does not read therefore blocks no other client. Replies wait in the queue while the requester's connection takes
none. A reply beyond the queue's capacity (the broker's default, unless a pattern sets one) is refused: nack, and
basic.return if it is mandatory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.content.properties import Properties
from penstock.core.consume.consumer import Consumer
from penstock.core.publish.producer_listener import ProducerListener
from penstock.core.queue.queue_settings import ConsumerSettings
from penstock.core.routing.route import PERSISTENT, expiration_s
from penstock.core.vhost import REPLY_TO
from penstock.errors import BrokerError, NotAllowed, NotFound, PreconditionFailed, ResourceError
from penstock.flow.credit import Credit
from penstock.management import gate_lines
from penstock.protocols.amqp091 import method_arguments as arg
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import frame, method_frame, short_text
from penstock.wire.amqp091.content_header import (
    DELIVERY_MODE,
    EXPIRATION,
    FLAGS_AT,
    PRIORITY,
    USER_ID,
    encode_header,
    property_at,
    skip_properties,
)
from penstock.wire.amqp091.content_header import REPLY_TO as REPLY_TO_INDEX
from penstock.wire.amqp091.fields import encode_shortstr

if TYPE_CHECKING:
    from penstock.core.publish.outbox import Held
    from penstock.core.routing.route import Route
    from penstock.flow.gate import Gate
    from penstock.protocols.amqp091.channel import Channel

CLAIMS: Final = 0x0210
"""Flags of reply_to and user_id in the property flags (AMQP 0-9-1 section 4.2.6.1)."""


def check_user_id_and_reply_to(channel: Channel, content: bytes) -> bytes:
    """Return the checked content, with a direct reply_to replaced by its address; the header is well formed.

    Raises PreconditionFailed (406) for a user_id that is not the connection's user, and for a direct reply_to if the
    channel does not consume replies.
    """
    position = property_at(content, USER_ID)
    if position:
        user = content[position + 1 : position + 1 + content[position]].decode(errors="replace")
        if user != channel.connection.user:
            raise PreconditionFailed(
                f"user_id property set to '{user}' but authenticated user was '{channel.connection.user}'"
            )
    position = property_at(content, REPLY_TO_INDEX)
    wanted = encode_shortstr(REPLY_TO)
    if not position or content[position : position + len(wanted)] != wanted:
        return content
    address = channel.replies_to()
    if not address:
        raise PreconditionFailed("fast reply consumer does not exist")
    own = encode_shortstr(address)
    size = int.from_bytes(content[3:7], "big") + len(own) - len(wanted)
    return content[:3] + size.to_bytes(4, "big") + content[7:position] + own + content[position + len(wanted) :]


DELIVERY_MODE_FLAG: Final = 0x1000
PRIORITY_FLAG: Final = 0x0800
EXPIRATION_FLAG: Final = 0x0100
"""Property flags of reply_to and user_id (AMQP 0-9-1 section 4.2.6.1)."""
IN_MEMORY_FLAGS: Final = 0x0900
"""Flags of priority and expiration."""
STORED_FLAGS: Final = 0x1900
"""Flags of priority, expiration and delivery mode, for brokers with a store."""
BEFORE_DELIVERY_MODE: Final = 0xE000
"""Flags of the properties before the delivery mode."""


def property_mask(route: Route) -> i64:
    """Return the flags of the properties that matter to a message on this route."""
    return STORED_FLAGS if route.checks_delivery_mode else IN_MEMORY_FLAGS


def is_persistent(content: bytes) -> bool:
    """Return whether a message has the delivery mode of persistent ones; its header is well formed."""
    pos = property_at(content, DELIVERY_MODE)
    return pos > 0 and content[pos] == PERSISTENT


def route_variant(route: Route, data: bytes, frame_at: i64) -> Route:
    """Return the route variant for the properties of a message whose header frame begins at this position.

    The header is well formed. Raises PreconditionFailed (406) for an expiration that is not a number of milliseconds,
    as RabbitMQ does.
    """
    pos = frame_at + FLAGS_AT
    flags: i64 = (data[pos] << 8) | data[pos + 1]
    pos += 2
    if flags & BEFORE_DELIVERY_MODE:
        pos = skip_properties(data, pos, flags, 0, DELIVERY_MODE)
    if flags & DELIVERY_MODE_FLAG:
        if data[pos] == PERSISTENT and route.checks_delivery_mode:
            route = route.persistent()
        pos += 1
    priority: i64 = 0
    if flags & PRIORITY_FLAG:
        priority = data[pos]
        pos += 1
    if not flags & EXPIRATION_FLAG:
        return route.with_priority(priority)
    pos = skip_properties(data, pos, flags, PRIORITY + 1, EXPIRATION)
    return route.variant(priority, expiration_s(data[pos + 1 : pos + 1 + data[pos]]))


def write_return(channel: Channel, route: Route, content: bytes, refused: BrokerError | None) -> None:
    """Write basic.return with the message.

    `refused` is the reason why a queue refused the message; None if no queue was bound.
    """
    if not channel.is_open():
        return  # The channel was closed in the same read: nothing may be sent on it.
    if refused is not None and channel.producer.confirming and channel.engine.profile.return_is_success:
        return  # This client understands only the nack.
    address = route.envelope
    method = method_frame(
        int(channel.number),
        spec.BASIC_RETURN,
        reply_code=312 if refused is None else refused.code,
        reply_text="NO_ROUTE" if refused is None else short_text(refused.reply_text),
        exchange=address.exchange,
        routing_key=address.routing_key,
    )
    channel.send_content(method, content)


def write_reason(channel: Channel, reason: str) -> None:
    """Write basic.return without a message: the reason of the refusal that follows."""
    text = short_text(ResourceError(reason).reply_text)
    method = method_frame(int(channel.number), spec.BASIC_RETURN, reply_code=ResourceError.code, reply_text=text)
    channel.send_content(method, frame(spec.FRAME_HEADER, int(channel.number), encode_header(0, Properties())))


PREFIX: Final = REPLY_TO + "."
"""Prefix of reply addresses."""


def consume_replies(channel: Channel, args: dict[str, object]) -> None:
    """Deliver replies to this channel. Raises PreconditionFailed (406), NotAllowed (530)."""
    services = channel.connection.services
    tag = arg.text(args, "consumer_tag") or services.make_name("amq.ctag")
    if tag in channel.consumers:
        raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")
    if not arg.flag(args, "no_ack"):
        raise PreconditionFailed("reply consumer cannot acknowledge")
    if channel.replies_to():
        raise PreconditionFailed("reply consumer already set")
    arguments = arg.table(args, "arguments")
    channel.broker.gates.metadata.admit(f"consumer '{tag}'", channel.vhost.name, arguments)
    queue = channel.vhost.create_reply_queue(PREFIX + services.make_name("")[1:])
    consumer = Consumer(tag, channel, queue, True, False, 0)
    consumer.shared = Credit()  # Replies ignore the channel's prefetch (as in RabbitMQ).
    consumer.arguments = arguments
    channel.broker.consume(channel, consumer, ConsumerSettings(queue.settings, {}))
    channel.replies = queue
    channel.engine.review_use()
    channel.reply(args, spec.BASIC_CONSUME_OK, {"consumer_tag": tag})


def declare_replies(channel: Channel, name: str) -> dict[str, object]:
    """Answer a declaration of a reply address, which only checks that the address exists. Raises NotFound (404)."""
    if name != REPLY_TO and name not in channel.vhost.replies:
        raise NotFound(f"no queue '{name}' in vhost '{channel.vhost.name}'")
    return {"queue": name, "message_count": 0, "consumer_count": 1}


class ChannelPublisher(ProducerListener):
    """The publishing client of a channel."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel.connection_number)
        self.channel = channel
        self._enforced: int = 0
        """Number of logged gates that block the channel, without rate gates."""

    @override
    def on_confirms(self) -> None:
        self.channel.write_confirms()

    @override
    def on_returned(self, route: Route, content: bytes, refused: BrokerError | None) -> None:
        write_return(self.channel, route, content, refused)

    @override
    def on_closed(self, error: BrokerError) -> None:
        self.channel.fail(error)

    def on_blocked(self, gate: Gate) -> bool:
        """Count a gate for its connection, and stop a client that obeys channel.flow at the first one.

        Only the first gate of a channel is logged, and the release of its last (as in Broker-J).
        """
        if not self.channel.connection.count_block(gate, 1):
            return False
        self._enforced += 1
        if self._enforced > 1:
            return False
        self.channel.send_flow_stop(gate)
        return True

    def on_unblocked(self, gate: Gate) -> bool:
        """See `on_blocked`."""
        if not self.channel.connection.count_block(gate, -1):
            return False
        self._enforced -= 1
        if self._enforced > 0:
            return False
        self.channel.send_flow_start()
        return True

    def on_departed(self) -> None:
        """Add the lost publishes to those of the connection, which are logged together."""
        self.channel.connection.count_departed(self.channel.producer)

    def publish_error(self) -> BrokerError | None:
        """Refuse a client that obeys channel.flow and went on publishing after the enforcement time."""
        channel = self.channel
        flow = channel.channel_flow
        if flow is None or channel.broker.now < flow.forbidden_from:
            return None
        channel.connection.services.log(gate_lines.ignored(channel.name))
        return ResourceError("channel.flow was requested, but the client went on publishing")

    def on_held(self, held: Held) -> None:
        """Log once per connection that a publish without a confirm is held: its publisher may exit before the publish
        passes."""
        connection = self.channel.connection
        if held.pending is None and not connection.losses.held_unconfirmed:
            connection.losses.held_unconfirmed = True
            deadline_s = held.deadline - self.channel.broker.now
            connection.services.log(gate_lines.held_unconfirmed(self.channel.name, deadline_s))
