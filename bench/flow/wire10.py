"""A lean AMQP 1.0 connection for the experiments, with the methods of the one of AMQP 0-9-1 (bench/flow/wire.py).

A channel is a session, with a link for each queue that it publishes to. What has no credit waits here.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable

from bench.flow.wire import PATIENCE_S
from penstock.client.parameters import Parameters
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite, decode_performative, encode_composite
from penstock.wire.amqp10.frames import AMQP_HEADER, HEADER_OCTETS, SASL_HEADER, FrameSplitter, frame
from penstock.wire.sasl import plain_response

FRAME_MAX = 1 << 20
WINDOW = 1 << 30
ACCEPTED = composite(spec.ACCEPTED)
NO_LINK = -1


def performative(channel: int, code: int, /, **fields: object) -> bytes:
    """Return a frame without a payload."""
    return frame(channel, encode_composite(composite(code, **fields)))


class Sender:
    """A link to one queue: its credit, and what waits for it."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.credit = 0
        self.sent = 0
        self.waiting: deque[bytes] = deque()


class Channel10:
    """One session: what it has published and was not told of, and what it receives."""

    def __init__(self, link: "Link10", number: int) -> None:
        self.link = link
        self.number = number
        self.open: dict[int, float] = {}
        """Deliveries that it was not told of, by delivery-id, with their time."""
        self.published = self.acked = self.nacked = 0
        self.closed: str = ""
        self.on_told: Callable[[int, bool], None] | None = None
        self.on_delivery: Callable[[int, bytes], None] | None = None
        self.senders: dict[str, Sender] = {}
        self._by_handle: dict[int, Sender] = {}
        self._begun = asyncio.Event()
        self._receiver = NO_LINK
        self._received = self._unsettled_from = 0
        self._prefetch = self._granted = 0

    async def begin(self) -> None:
        """Begin the session."""
        fields = {"next_outgoing_id": 0, "incoming_window": WINDOW, "outgoing_window": WINDOW}
        self.link.write(performative(self.number, spec.BEGIN, **fields))
        await asyncio.wait_for(self._begun.wait(), PATIENCE_S)

    def publish(self, queue: str, bodies: list[bytes]) -> None:
        """Send messages as far as there is credit; the rest when there is more."""
        sender = self.senders.get(queue)
        if sender is None:
            sender = self.senders[queue] = Sender(len(self.senders) + 1)
            self._by_handle[sender.handle] = sender
            self.link.write(
                performative(
                    self.number, spec.ATTACH, name=f"{id(self)}-{queue}", handle=sender.handle, role=False,
                    source=composite(spec.SOURCE), target=composite(spec.TARGET, address=queue),
                    initial_delivery_count=0,
                )
            )  # fmt: skip
        sender.waiting.extend(bodies)
        self._send(sender)

    def _send(self, sender: Sender) -> None:
        out = []
        while sender.credit > 0 and sender.waiting:
            body = sender.waiting.popleft()
            number = self.published
            self.published += 1
            self.open[number] = time.monotonic()
            sender.sent += 1
            sender.credit -= 1
            head = composite(
                spec.TRANSFER, handle=sender.handle, delivery_id=number, delivery_tag=number.to_bytes(4, "big"),
                message_format=0,
            )  # fmt: skip
            section = b"\x00\x53\x75\xb0" + len(body).to_bytes(4, "big")
            out.append(frame(self.number, encode_composite(head) + section + body))
        if out:
            self.link.write(b"".join(out))

    def ack(self, tag: int) -> None:
        """Accept everything up to a delivery."""
        fields = {"first": self._unsettled_from, "last": tag, "settled": True, "state": ACCEPTED}
        self.link.write(performative(self.number, spec.DISPOSITION, role=True, **fields))
        self._unsettled_from = tag + 1
        self._renew()

    async def consume(self, queue: str, prefetch: int) -> None:
        """Consume with acknowledgements: at most so many are unsettled."""
        self._receiver, self._prefetch = 0, prefetch
        self.link.write(
            performative(
                self.number, spec.ATTACH, name=f"{id(self)}-receiver", handle=0, role=True,
                source=composite(spec.SOURCE, address=queue), target=composite(spec.TARGET),
            )
        )  # fmt: skip
        self._renew()

    def _renew(self) -> None:
        """Grant what is settled again, as the prefetch of AMQP 0-9-1 does."""
        self.link.write(
            performative(
                self.number, spec.FLOW, next_incoming_id=self._received, incoming_window=WINDOW, next_outgoing_id=0,
                outgoing_window=WINDOW, handle=self._receiver, delivery_count=self._received,
                link_credit=self._prefetch - (self._received - self._unsettled_from),
            )
        )  # fmt: skip

    def heard(self, found: Composite, payload: bytes) -> None:
        """Act on a performative that came."""
        if found.name == "begin":
            self._begun.set()
        elif found.name == "flow":
            sender = self._by_handle.get(found.number("handle", NO_LINK))
            if sender is not None:
                sender.credit = found.number("delivery_count", 0) + found.number("link_credit", 0) - sender.sent
                self._send(sender)
        elif found.name == "transfer":
            tag = self._received
            self._received += 1
            if self.on_delivery is not None:
                self.on_delivery(tag, body_of(payload))
        elif found.name == "disposition" and found.fields["role"]:
            state = found.fields["state"]
            first = found.number("first", 0)
            self._told(first, found.number("last", first), isinstance(state, Composite) and state.name == "accepted")
        elif found.name in ("detach", "end") and found.fields["error"] is not None:
            self.closed = self.closed or str(found.fields["error"])

    def _told(self, first: int, last: int, accepted: bool) -> None:
        count = sum(self.open.pop(number, None) is not None for number in range(first, last + 1))
        if accepted:
            self.acked += count
        else:
            self.nacked += count
        if self.on_told is not None and count:
            self.on_told(count, accepted)


def body_of(payload: bytes) -> bytes:
    """Return the octets of the data section, which the broker's sections are before."""
    at = payload.index(b"\x00\x53\x75\xb0")
    size = int.from_bytes(payload[at + 4 : at + 8], "big")
    return payload[at + 8 : at + 8 + size]


class Link10(asyncio.Protocol):
    """One connection and its sessions."""

    def __init__(self) -> None:
        self.channels: dict[int, Channel10] = {}
        self.lost = ""
        self._splitter = FrameSplitter(FRAME_MAX)
        self._headers: deque[bytes] = deque((SASL_HEADER, AMQP_HEADER))
        self._rest = b""
        self._opened = asyncio.Event()
        self._transport: asyncio.Transport

    @classmethod
    async def to(cls, url: str) -> "Link10":
        """Connect and log in."""
        parameters = Parameters.from_url(url)
        link = cls()
        await asyncio.get_running_loop().create_connection(lambda: link, parameters.host, parameters.port)
        login = composite(
            spec.SASL_INIT,
            mechanism="PLAIN",
            initial_response=plain_response(parameters.user, parameters.password),
        )
        link.write(SASL_HEADER + frame(0, encode_composite(login), spec.FRAME_SASL) + AMQP_HEADER)
        link.write(performative(0, spec.OPEN, container_id=f"scorecard-{id(link)}", max_frame_size=FRAME_MAX))
        await asyncio.wait_for(link._opened.wait(), PATIENCE_S)
        return link

    async def channel(self, confirms: bool = False) -> Channel10:
        """Begin a session; everything is unsettled, as with confirms."""
        channel = Channel10(self, len(self.channels))
        self.channels[channel.number] = channel
        await channel.begin()
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
        for channel in self.channels.values():
            channel.closed = channel.closed or self.lost

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self._rest += data
        while True:
            if self._headers and self._rest.startswith(self._headers[0]):
                self._rest = self._rest[HEADER_OCTETS:]
                self._headers.popleft()
            size = int.from_bytes(self._rest[:4], "big")
            if len(self._rest) < 8 or len(self._rest) < size or (self._headers and self._rest[:4] == b"AMQP"):
                return
            if not self._headers:
                rest, self._rest = self._rest, b""
                for each in self._splitter.feed(rest):
                    self._frame(each.channel, each.body)
                return
            self._rest = self._rest[size:]  # Frames of SASL; a refused login ends the connection.

    def _frame(self, number: int, body: bytes) -> None:
        if not body:
            return
        found, at = decode_performative(body)
        if found.name == "open":
            self._opened.set()
        elif found.name == "close":
            self.lost = str(found.fields["error"])
        elif number in self.channels:
            self.channels[number].heard(found, body[at:])
