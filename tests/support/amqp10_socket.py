"""An AMQP 1.0 peer on a socket: performatives out and in, of a broker in another process."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Protocol, Self

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite, decode_performative
from penstock.wire.amqp10.frames import AMQP_HEADER, HEADER_OCTETS
from tests.support.amqp10_dialogue import LARGEST_FRAME, Heard, data_section, login, performative
from tests.support.amqp10_transactions import in_transaction, value_section
from tests.support.brokers import PATIENCE
from tests.support.frame_splitter import FrameSplitter


class Address(Protocol):
    """Where a broker listens, such as a `BrokerProcess`."""

    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...


class SocketPeer:
    """A connection that is open, with a session on channel 0."""

    def __init__(self, broker: Address) -> None:
        self._socket = socket.create_connection((broker.host, broker.port), PATIENCE)
        self._splitter = FrameSplitter(LARGEST_FRAME)
        self._heard: list[Heard] = []
        self._next_id = 0
        window = {"next_outgoing_id": 0, "incoming_window": 1 << 20, "outgoing_window": 1 << 20}
        self.send(
            login(), AMQP_HEADER, performative(spec.OPEN, container_id="socket"), performative(spec.BEGIN, **window)
        )
        self._octets(HEADER_OCTETS)
        while self.read().name != "sasl-outcome":
            pass
        assert self._between == AMQP_HEADER
        self.await_one("begin")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, *frames: bytes) -> None:
        self._socket.sendall(b"".join(frames))

    def read(self) -> Heard:
        """Return the next frame. Raises ConnectionError when there is none."""
        size = int.from_bytes(self._octets(4), "big")
        frame = self._octets(size - 4)
        found, at = decode_performative(frame[4 * frame[0] - 4 :])
        heard = Heard(int.from_bytes(frame[2:4], "big"), found, frame[4 * frame[0] - 4 + at :])
        if heard.name == "sasl-outcome":
            self._between = self._octets(HEADER_OCTETS)
        return heard

    def await_one(self, name: str) -> Heard:
        """Read until a performative of this name comes, and return it."""
        heard = self.read()
        while heard.name != name:
            heard = self.read()
        return heard

    def _octets(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            if not more:
                raise ConnectionError("the broker has closed the connection")
            data += more
        return data

    def attach_sender(self, handle: int, target: Composite, **more: object) -> None:
        fields = {"name": f"s{handle}", "source": composite(spec.SOURCE), "initial_delivery_count": 0, **more}
        self.send(performative(spec.ATTACH, handle=handle, role=False, target=target, **fields))

    def attach_receiver(self, handle: int, queue: str, credit: int) -> None:
        source = composite(spec.SOURCE, address=queue)
        fields = {"name": f"r{handle}", "source": source, "target": composite(spec.TARGET)}
        windows = {"next_incoming_id": 0, "incoming_window": 1 << 20, "next_outgoing_id": 0, "outgoing_window": 1 << 20}
        self.send(
            performative(spec.ATTACH, handle=handle, role=True, **fields),
            performative(spec.FLOW, handle=handle, delivery_count=0, link_credit=credit, **windows),
        )

    def transfer(self, handle: int, payload: bytes, **fields: object) -> bytes:
        """Return a transfer with the next delivery-id."""
        number = self._next_id
        self._next_id += 1
        tag = number.to_bytes(4, "big")
        return performative(
            spec.TRANSFER, 0, payload, handle=handle, delivery_id=number, delivery_tag=tag, message_format=0, **fields
        )

    def request(self, handle: int, request: Composite) -> bytes:
        """Return a message to the coordinator."""
        return self.transfer(handle, value_section(request))

    def post(self, handle: int, txn_id: bytes, body: bytes) -> bytes:
        """Return a durable message in a transaction; it is settled, so that no outcome comes but the discharge's."""
        message = b"\x00\x53\x70\xc0\x02\x01\x41" + data_section(body)
        return self.transfer(handle, message, settled=True, state=in_transaction(txn_id))
