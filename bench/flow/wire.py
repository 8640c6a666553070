"""A lean AMQP 0-9-1 connection for the experiments: publishes in bulk, counts confirms, hands deliveries out.

It waits for nothing by itself and keeps no message. One event loop drives all connections of an experiment; at the few
thousand messages a second that these take it is not what is measured (the table says how busy it was).
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from penstock.client.parameters import Parameters
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import Method, Properties, decode_method, encode_header, frame, method_frame
from penstock.wire.sasl import plain_response

PATIENCE_S = 30.0
"""Seconds to wait for an answer before an experiment fails."""
NO_PROPERTIES = Properties()
ACK, NACK, DELIVER = spec.BASIC_ACK, spec.BASIC_NACK, spec.BASIC_DELIVER


class Gone(Exception):
    """The broker closed the channel or connection, with this code and text."""


class Channel:
    """One channel: what it has published and was not told of, and what it asked."""

    def __init__(self, link: "Link", number: int) -> None:
        self.link = link
        self.number = number
        self.open: dict[int, float] = {}
        """Publishes that it was not told of, by number, with their time."""
        self.published = self.acked = self.nacked = 0
        self.closed: str = ""
        self.on_told: Callable[[int, bool], None] | None = None
        """Called with how many were confirmed (true) or refused."""
        self.on_delivery: Callable[[int, bytes], None] | None = None
        self.answers: deque[asyncio.Future[Method]] = deque()
        self._tag = 0

    async def ask(self, method: int, **args: Any) -> Method:
        """Send a method and wait for its answer."""
        future: asyncio.Future[Method] = asyncio.get_running_loop().create_future()
        self.answers.append(future)
        self.link.write(method_frame(self.number, method, **args))
        return await asyncio.wait_for(future, PATIENCE_S)

    def publish(self, queue: str, bodies: list[bytes]) -> None:
        """Publish messages in one write."""
        head = method_frame(self.number, spec.BASIC_PUBLISH, exchange="", routing_key=queue)
        now, out = time.monotonic(), []
        for body in bodies:
            self.published += 1
            self.open[self.published] = now
            out += [head, frame(2, self.number, encode_header(len(body), NO_PROPERTIES)), frame(3, self.number, body)]
        self.link.write(b"".join(out))

    def ack(self, tag: int) -> None:
        """Acknowledge everything up to a delivery."""
        self.link.write(method_frame(self.number, spec.BASIC_ACK, delivery_tag=tag, multiple=True))

    async def declare(self, queue: str, arguments: dict[str, Any]) -> None:
        """Declare a queue."""
        await self.ask(spec.QUEUE_DECLARE, queue=queue, arguments=arguments)

    async def depth(self, queue: str) -> int:
        """Return how many messages are ready in a queue."""
        answer = await self.ask(spec.QUEUE_DECLARE, queue=queue, passive=True)
        return int(str(answer.args["message_count"]))

    async def consume(self, queue: str, prefetch: int) -> None:
        """Consume with acknowledgements."""
        await self.ask(spec.BASIC_QOS, prefetch_count=prefetch)
        await self.ask(spec.BASIC_CONSUME, queue=queue)

    def method(self, method: Method) -> None:
        """Act on a method that came."""
        if method.id in (ACK, NACK):
            self._told(int(str(method.args["delivery_tag"])), bool(method.args["multiple"]), method.id == ACK)
        elif method.id == DELIVER:
            self._tag = int(str(method.args["delivery_tag"]))
        elif method.id == spec.CHANNEL_CLOSE:
            self.end(f"{method.args['reply_code']} {method.args['reply_text']}")
            self.link.write(method_frame(self.number, spec.CHANNEL_CLOSE_OK))
        elif self.answers:
            future = self.answers.popleft()
            if not future.done():
                future.set_result(method)

    def body(self, body: bytes) -> None:
        """A delivery is complete."""
        if self.on_delivery is not None:
            self.on_delivery(self._tag, body)

    def end(self, reason: str) -> None:
        """It is closed: whoever waits for an answer is told."""
        self.closed = self.closed or reason
        for future in self.answers:
            if not future.done():
                future.set_exception(Gone(reason))
        self.answers.clear()

    def _told(self, tag: int, multiple: bool, confirmed: bool) -> None:
        count = 0
        if multiple:
            while self.open and (oldest := next(iter(self.open))) <= tag:
                del self.open[oldest]
                count += 1
        elif self.open.pop(tag, None) is not None:
            count = 1
        if confirmed:
            self.acked += count
        else:
            self.nacked += count
        if self.on_told is not None and count:
            self.on_told(count, confirmed)


class Link(asyncio.Protocol):
    """One connection and its channels."""

    def __init__(self) -> None:
        self.channels: dict[int, Channel] = {}
        self.blocked = 0
        self.lost = ""
        self._zero = Channel(self, 0)
        self._rest = b""
        self._left = 0
        self._body: list[bytes] = []
        self._transport: asyncio.Transport

    @classmethod
    async def to(cls, url: str) -> "Link":
        """Connect and log in."""
        parameters = Parameters.from_url(url)
        link = cls()
        await asyncio.get_running_loop().create_connection(lambda: link, parameters.host, parameters.port)
        capable: dict[str, object] = {"connection.blocked": True, "publisher_confirms": True, "basic.nack": True}
        future: asyncio.Future[Method] = asyncio.get_running_loop().create_future()
        link._zero.answers.append(future)
        link.write(b"AMQP\x00\x00\x09\x01")
        await asyncio.wait_for(future, PATIENCE_S)
        tune = await link._zero.ask(
            spec.CONNECTION_START_OK,
            client_properties={"product": "penstock scorecard", "capabilities": capable},
            mechanism="PLAIN",
            response=plain_response(parameters.user, parameters.password),
            locale="en_US",
        )
        link.write(
            method_frame(
                0,
                spec.CONNECTION_TUNE_OK,
                channel_max=int(str(tune.args["channel_max"])),
                frame_max=int(str(tune.args["frame_max"])),
                heartbeat=0,
            )
        )
        await link._zero.ask(spec.CONNECTION_OPEN, virtual_host=parameters.virtual_host)
        return link

    async def channel(self, confirms: bool = False) -> Channel:
        """Open a channel."""
        channel = Channel(self, len(self.channels) + 1)
        self.channels[channel.number] = channel
        await channel.ask(spec.CHANNEL_OPEN)
        if confirms:
            await channel.ask(spec.CONFIRM_SELECT)
        return channel

    def write(self, data: bytes) -> None:
        """Send."""
        if not self.lost:
            self._transport.write(data)

    def abort(self) -> None:
        """Let go of the connection without a word."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self.lost = self.lost or "the connection was lost"
        for channel in (self._zero, *self.channels.values()):
            channel.end(self.lost)

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        data = self._rest + data
        at, size = 0, len(data)
        while size - at >= 8:
            length = int.from_bytes(data[at + 3 : at + 7], "big")
            end = at + 8 + length
            if end > size:
                break
            number = int.from_bytes(data[at + 1 : at + 3], "big")
            channel = self.channels.get(number, self._zero)
            kind = data[at]
            if kind == 1:
                self._method(channel, number, decode_method(data[at + 7 : end - 1]))
            elif kind == 2:
                self._left = int.from_bytes(data[at + 11 : at + 19], "big")
                self._body = []
            elif kind == 3:
                self._body.append(data[at + 7 : end - 1])
                self._left -= length
                if self._left == 0:
                    channel.body(b"".join(self._body))
            at = end
        self._rest = data[at:]

    def _method(self, channel: Channel, number: int, method: Method) -> None:
        if method.id == spec.CONNECTION_BLOCKED:
            self.blocked += 1
        elif method.id == spec.CONNECTION_CLOSE:
            self.lost = f"{method.args['reply_code']} {method.args['reply_text']}"
            self._transport.write(method_frame(0, spec.CONNECTION_CLOSE_OK))
        elif method.id != spec.CONNECTION_UNBLOCKED:
            channel.method(method)
