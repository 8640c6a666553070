"""basic.return: a mandatory message that reached no queue goes back to its publisher (section 1.8.3.8)."""

from __future__ import annotations

from penstock.adapter.amqp091.channel import Channel
from penstock.core.route import Route
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame


def write_return(channel: Channel, route: Route, content: bytes) -> None:
    """Write basic.return with the message."""
    if not channel.stands():
        return  # It was closed in the same read: nothing may come on it any more.
    address = route.address
    method = method_frame(
        int(channel.number),
        spec.BASIC_RETURN,
        reply_code=312,
        reply_text="NO_ROUTE",
        exchange=address.exchange,
        routing_key=address.routing_key,
    )
    channel.send_content(method, content)
