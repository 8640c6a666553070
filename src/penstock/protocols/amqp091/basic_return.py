"""basic.return: sends an unroutable or refused mandatory message back to its publisher (section 1.8.3.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.routing.route import Route
from penstock.errors import BrokerError, ResourceError
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import Properties, encode_header, frame, method_frame, short_text

if TYPE_CHECKING:
    from penstock.protocols.amqp091.channel import Channel


def write_return(channel: Channel, route: Route, content: bytes, refused: BrokerError | None) -> None:
    """Write basic.return with the message.

    `refused` is the reason why a queue refused it, None if no queue was bound.
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
