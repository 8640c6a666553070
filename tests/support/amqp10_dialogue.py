"""One AMQP 1.0 peer of a driver, as bytes in and performatives out: no socket, no loop, time by hand."""

from __future__ import annotations

from typing import NamedTuple, Self

from penstock.connections.peer import Peer
from penstock.core.vhost import VirtualHost
from penstock.driver.driver import BrokerDriver
from penstock.protocols.amqp10.incoming_link import IncomingLink
from penstock.protocols.amqp10.session import AmqpSession
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite, decode_performative, encode_composite
from penstock.wire.amqp10.frames import AMQP_HEADER, SASL_HEADER, frame
from penstock.wire.sasl import plain_response
from tests.support.driven_connection import make_driver, output_of
from tests.support.frame_splitter import FrameSplitter

LARGEST_FRAME = 1 << 20


class Heard(NamedTuple):
    """One frame from the broker."""

    channel: int
    performative: Composite
    payload: bytes

    @property
    def name(self) -> str:
        return self.performative.name

    def field(self, name: str) -> object:
        return self.performative.fields[name]


def login(user: str = "guest", password: str = "guest") -> bytes:
    """Return the SASL header and the login with PLAIN, in one piece."""
    init = composite(spec.SASL_INIT, mechanism="PLAIN", initial_response=plain_response(user, password))
    return SASL_HEADER + frame(0, encode_composite(init), spec.FRAME_SASL)


def performative(code: int, channel: int = 0, payload: bytes = b"", **fields: object) -> bytes:
    """Return a frame with a performative."""
    return frame(channel, encode_composite(composite(code, **fields)) + payload)


def data_section(body: bytes) -> bytes:
    """Return a message of one data section."""
    if len(body) < 256:
        return b"\x00\x53\x75\xa0" + bytes([len(body)]) + body
    return b"\x00\x53\x75\xb0" + len(body).to_bytes(4, "big") + body


class Amqp10Dialogue:
    """A connection that has been opened, with a session on channel 0."""

    def __init__(
        self,
        driver: BrokerDriver | None = None,
        session: bool = True,
        open_channel: int = 0,
        password: str = "guest",
        user: str = "guest",
        peer: str = "127.0.0.1:1",
        **open_fields: object,
    ) -> None:
        self.driver = make_driver() if driver is None else driver
        self.connection = self.driver.connect(Peer(peer, True))
        self._splitter = FrameSplitter(LARGEST_FRAME)
        self._next_id = 0
        self._sending: set[tuple[int, int]] = set()
        self.grants: dict[tuple[int, int], Heard] = {}
        """The last flow of each link that we send on, by channel and handle, besides those after its attach."""
        data = self.raw(login(user, password))
        assert data.startswith(SASL_HEADER)
        self._splitter.feed(data[8:])
        assert self.raw(AMQP_HEADER) == AMQP_HEADER
        fields = {"container_id": "test", **open_fields}
        self.opened = self.say(performative(spec.OPEN, open_channel, **fields))
        if session:
            (self.begun,) = self.begin(0)

    def begin(self, channel: int, incoming_window: int = 1 << 20, **fields: object) -> list[Heard]:
        fields = {"next_outgoing_id": 0, "incoming_window": incoming_window, "outgoing_window": 1 << 20, **fields}
        return self.say(performative(spec.BEGIN, channel, **fields))

    def raw(self, data: bytes) -> bytes:
        """Send octets in one piece, let the broker make its turn, and return the octets that come back."""
        self.connection.receive(data)
        return self.listen_raw()

    def listen_raw(self, now: float | None = None) -> bytes:
        if now is not None:
            self.driver.begin(now)
        while self.driver.run_turn():
            pass
        return output_of(self.connection)

    def say(self, *frames: bytes) -> list[Heard]:
        """Send frames in one piece and return what comes back, without grants of credit."""
        return self._without_grants(self._cut(self.raw(b"".join(frames))))

    def listen(self, now: float | None = None) -> list[Heard]:
        """Let the broker make its turns, at a time if one is given, and return what comes, without grants of credit."""
        return self._without_grants(self._cut(self.listen_raw(now)))

    def _without_grants(self, heard: list[Heard]) -> list[Heard]:
        """Remember the flows of links that we send on, which come whenever the broker has room."""
        others = []
        for each in heard:
            handle = each.performative.number("handle") if each.name == "flow" else -1
            if (each.channel, handle) in self._sending and each.field("properties") is None:
                self.grants[each.channel, handle] = each
            else:
                others.append(each)
        return others

    def _cut(self, data: bytes) -> list[Heard]:
        heard = []
        for each in self._splitter.feed(data):
            if each.body:
                found, at = decode_performative(each.body)
                heard.append(Heard(each.channel, found, each.body[at:]))
        assert not self._splitter.unparsed
        return heard

    def attach_sender(self, address: str | None, handle: int = 0, channel: int = 0, **fields: object) -> list[Heard]:
        """Attach a link that we send on."""
        target = composite(spec.TARGET, address=address)
        fields = {
            "name": f"s{handle}",
            "source": composite(spec.SOURCE),
            "target": target,
            "initial_delivery_count": 0,
            **fields,
        }
        heard = self._cut(self.raw(performative(spec.ATTACH, channel, handle=handle, role=False, **fields)))
        self._sending.add((channel, handle))
        return heard

    def attach_receiver(
        self, address: str | None, handle: int = 1, credit: int = 0, channel: int = 0, **fields: object
    ) -> list[Heard]:
        """Attach a link that we receive on, and grant credit."""
        source = composite(spec.SOURCE, address=address)
        fields = {"name": f"r{handle}", "source": source, "target": composite(spec.TARGET), **fields}
        heard = self.say(performative(spec.ATTACH, channel, handle=handle, role=True, **fields))
        return heard + self.flow(handle, credit, channel) if credit else heard

    def flow(
        self, handle: int, credit: int, channel: int = 0, delivery_count: int = 0, drain: bool = False, **fields: object
    ) -> list[Heard]:
        """Grant link credit."""
        fields = {
            "next_incoming_id": 0,
            "incoming_window": 1 << 20,
            "next_outgoing_id": 0,
            "outgoing_window": 1 << 20,
            "handle": handle,
            "delivery_count": delivery_count,
            "link_credit": credit,
            "drain": drain,
            **fields,
        }
        return self.say(performative(spec.FLOW, channel, **fields))

    def transfer(self, payload: bytes, handle: int = 0, channel: int = 0, **fields: object) -> bytes:
        """Return a transfer with the next delivery-id."""
        number = self._next_id
        self._next_id = (number + 1) & 0xFFFFFFFF
        fields = {"delivery_id": number, "delivery_tag": number.to_bytes(4, "big"), "message_format": 0, **fields}
        return performative(spec.TRANSFER, channel, payload, handle=handle, **fields)

    def put(self, *bodies: bytes, handle: int = 0, channel: int = 0, **fields: object) -> list[Heard]:
        """Send messages of one data section each, in one piece."""
        return self.say(*(self.transfer(data_section(body), handle, channel, **fields) for body in bodies))

    def detach(self, handle: int, closed: bool = True, channel: int = 0) -> list[Heard]:
        return self.say(performative(spec.DETACH, channel, handle=handle, closed=closed))

    def settle(
        self, first: int, last: int, state: Composite | None, settled: bool = True, channel: int = 0
    ) -> list[Heard]:
        """Settle deliveries of the broker."""
        return self.say(
            performative(spec.DISPOSITION, channel, role=True, first=first, last=last, settled=settled, state=state)
        )

    def session(self, channel: int = 0) -> AmqpSession:
        """Return the broker's side of a session."""
        found = self.connection.engine.session(channel)
        assert isinstance(found, AmqpSession)
        return found

    def credit_of(self, handle: int = 0) -> int:
        """Return the link credit that a sender has."""
        link = self.session().links.by_handle[handle]
        assert isinstance(link, IncomingLink)
        return int(link.credit.credit)

    def declare(self, queue: str, **arguments: object) -> Self:
        """Declare a queue; `capacity_messages=5` is the argument capacity-messages."""
        table = {name.replace("_", "-"): value for name, value in arguments.items()}
        self.vhost.declare_queue(queue, table, False, False, None, None)
        return self

    @property
    def vhost(self) -> VirtualHost:
        return self.driver.broker.vhosts["/"]

    def depth(self, queue: str) -> int:
        return int(self.vhost.queues[queue].messages)

    def available(self, queue: str = "q") -> int:
        """Return how many messages of a queue could be delivered now."""
        return int(self.vhost.queues[queue].available())


def sender(
    driver: BrokerDriver | None = None,
    address: str = "/queues/q",
    attach: dict[str, object] | None = None,
    **arguments: object,
) -> Amqp10Dialogue:
    """Return a peer that has declared the queue q, with these arguments, and has attached a link to send to it."""
    client = Amqp10Dialogue(driver)
    client.declare("q", **arguments)
    client.attach_sender(address, **(attach or {}))  # type: ignore[arg-type]
    return client


def names(heard: list[Heard]) -> list[str]:
    return [each.name for each in heard]


def transfers(heard: list[Heard]) -> list[Heard]:
    return [each for each in heard if each.name == "transfer"]


def accepted() -> Composite:
    return composite(spec.ACCEPTED)


def condition(heard: Heard) -> object:
    """Return the condition of the error of a detach, end or close, or of a rejected delivery."""
    error = heard.performative.inner("state" if heard.name == "disposition" else "error")
    if error is not None and error.code == spec.REJECTED:
        error = error.inner("error")
    return None if error is None or error.code != spec.ERROR else error.fields["condition"]
