"""AMQP 0-9-1 clients of the simulation, on the codec: they negotiate, publish, consume and note what they are told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from typing_extensions import override

from penstock.content.properties import Properties
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import Method, decode_method, frame, method_frame
from penstock.wire.amqp091.content_header import encode_header
from penstock.wire.sasl import plain_response
from tests.support.simulated_loop import SimLoop
from tests.support.simulated_network import End

NO_PROPERTIES = Properties()


class Lost(Exception):
    """The connection or channel is gone."""


def number(method: Method, name: str) -> int:
    """Return an integer argument of a method."""
    value = method.args[name]
    assert isinstance(value, int)
    return value


class Client(asyncio.Protocol):
    """One connection with one channel."""

    def __init__(self, loop: SimLoop, name: str) -> None:
        self.loop = loop
        self.name = name
        self.end: End
        self.lost = False
        self.closed_with: tuple[int, str] | None = None
        self.may_write = asyncio.Event()
        self.may_write.set()
        self.blocked = False
        self.confirms = False
        self.published = 0
        self.unconfirmed: dict[int, float] = {}
        """Publishes that we were not told of, with the time that they were written."""
        self.acked: list[int] = []
        self.nacked: list[int] = []
        self.longest_s = 0.0
        """The longest that a publish had to wait for its confirmation."""
        self.on_delivery: Callable[[int, bytes, bool], None] | None = None
        self._rest = b""
        self._replies: asyncio.Queue[Method | None] = asyncio.Queue()
        self._news = asyncio.Event()
        self._delivery: tuple[int, bool] | None = None
        self._body: list[bytes] = []
        self._left = -1

    # From the network

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, End)
        self.end = transport

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self.may_write.set()
        self._wake()

    @override
    def pause_writing(self) -> None:
        self.may_write.clear()

    @override
    def resume_writing(self) -> None:
        self.may_write.set()

    @override
    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        pos = 0
        while len(data) - pos >= 8:
            size = int.from_bytes(data[pos + 3 : pos + 7], "big")
            if len(data) - pos < size + 8:
                break
            assert data[pos + size + 7] == spec.FRAME_END
            self._frame(data[pos], int.from_bytes(data[pos + 1 : pos + 3], "big"), data[pos + 7 : pos + 7 + size])
            pos += size + 8
        self._rest = data[pos:]

    def _frame(self, kind: int, channel: int, payload: bytes) -> None:
        assert self.closed_with is None or channel == 0, f"{self.name}: a frame came on a channel that was closed"
        if kind == spec.FRAME_METHOD:
            assert self._left < 0, "a method came where content was expected"
            self._method(decode_method(payload))
        elif kind == spec.FRAME_HEADER:
            self._left = int.from_bytes(payload[4:12], "big")
        elif kind == spec.FRAME_BODY:
            self._body.append(payload)
            self._left -= len(payload)
        if self._left == 0:
            self._left = -1
            body = b"".join(self._body)
            self._body.clear()
            if self.on_delivery is not None:
                self.on_delivery(self._delivery[0], body, self._delivery[1])

    def _method(self, method: Method) -> None:
        args = method.args
        if method.id == spec.BASIC_DELIVER:
            self._delivery = number(method, "delivery_tag"), bool(args["redelivered"])
            self._left = 1 << 62
        elif method.id in (spec.BASIC_ACK, spec.BASIC_NACK):
            self._decide(number(method, "delivery_tag"), bool(args["multiple"]), method.id == spec.BASIC_ACK)
        elif method.id == spec.CONNECTION_BLOCKED:
            assert not self.blocked, f"{self.name} was told twice that it is blocked"
            self.blocked = True
        elif method.id == spec.CONNECTION_UNBLOCKED:
            assert self.blocked, f"{self.name} was told twice that it is not blocked"
            self.blocked = False
        elif method.id in (spec.CHANNEL_CLOSE, spec.CONNECTION_CLOSE):
            self.closed_with = number(method, "reply_code"), str(args["reply_text"])
            ok = spec.CHANNEL_CLOSE_OK if method.id == spec.CHANNEL_CLOSE else spec.CONNECTION_CLOSE_OK
            self.end.write(method_frame(1 if method.id == spec.CHANNEL_CLOSE else 0, ok))
            self._wake()
        else:
            self._replies.put_nowait(method)

    def _decide(self, number: int, multiple: bool, confirmed: bool) -> None:
        told = [each for each in self.unconfirmed if each == number or (multiple and each < number)]
        assert told, f"{self.name}: told of {number}, which is not open"
        older = [each for each in self.unconfirmed if each < number and each not in told]
        assert not (confirmed and older), f"{self.name}: {number} was confirmed before {older}"
        for each in told:
            self.longest_s = max(self.longest_s, self.loop.time() - self.unconfirmed.pop(each))
            (self.acked if confirmed else self.nacked).append(each)
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        if self.lost or self.closed_with:
            self._replies.put_nowait(None)

    # What a client does

    def send(self, method: int, channel: int = 1, **args: object) -> None:
        """Send a method; its arguments by name."""
        self.end.write(method_frame(channel, method, **args))

    async def expect(self, method: int) -> Method:
        """Wait for a reply. Raises Lost when the channel or connection ends instead."""
        reply = await self._replies.get()
        if reply is None:
            raise Lost(f"{self.name}: {self.closed_with}")
        assert reply.id == method, f"{self.name}: expected {spec.METHODS[method].name}, got {reply.name}"
        return reply

    async def call(self, method: int, reply: int, channel: int = 1, **args: object) -> Method:
        """Send a method and wait for its reply. Raises Lost."""
        self.send(method, channel, **args)
        return await self.expect(reply)

    async def open(self, confirms: bool = False, prefetch: int = 0) -> None:
        """Negotiate and open a channel."""
        self.end.write(b"AMQP\x00\x00\x09\x01")
        await self.expect(spec.CONNECTION_START)
        who: dict[str, object] = {"product": "simulated", "capabilities": {"connection.blocked": True}}
        login = plain_response("guest", "guest")
        self.send(spec.CONNECTION_START_OK, 0, client_properties=who, mechanism="PLAIN", response=login, locale="en_US")
        await self.expect(spec.CONNECTION_TUNE)
        self.send(spec.CONNECTION_TUNE_OK, 0, channel_max=10, frame_max=131072, heartbeat=0)
        await self.call(spec.CONNECTION_OPEN, spec.CONNECTION_OPEN_OK, 0, virtual_host="/")
        await self.call(spec.CHANNEL_OPEN, spec.CHANNEL_OPEN_OK)
        self.confirms = confirms
        if confirms:
            await self.call(spec.CONFIRM_SELECT, spec.CONFIRM_SELECT_OK)
        if prefetch:
            await self.call(spec.BASIC_QOS, spec.BASIC_QOS_OK, prefetch_count=prefetch)

    def publish(self, queue: str, body: bytes) -> int:
        """Publish to a queue; returns the publish's number."""
        self.published += 1
        if self.confirms:
            self.unconfirmed[self.published] = self.loop.time()
        self.end.write(
            method_frame(1, spec.BASIC_PUBLISH, routing_key=queue)
            + frame(spec.FRAME_HEADER, 1, encode_header(len(body), NO_PROPERTIES))
            + frame(spec.FRAME_BODY, 1, body)
        )
        return self.published

    async def window(self, most: int) -> None:
        """Wait until at most so many publishes are unconfirmed. Raises Lost."""
        while len(self.unconfirmed) > most:
            self._news.clear()
            if self.lost or self.closed_with:
                raise Lost(self.name)
            await self._news.wait()

    def ack(self, tag: int, multiple: bool) -> None:
        """Acknowledge a delivery, or all up to it."""
        self.send(spec.BASIC_ACK, delivery_tag=tag, multiple=multiple)

    async def say_goodbye(self) -> None:
        """Close the connection in good order."""
        if not self.lost:
            await self.call(spec.CONNECTION_CLOSE, spec.CONNECTION_CLOSE_OK, 0)
