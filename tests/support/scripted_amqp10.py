"""The far end of an AMQP 1.0 connection, played by a test over `scripted_server`."""

from __future__ import annotations

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite, decode_performative, encode
from penstock.wire.amqp10.frames import AMQP_HEADER, HEADER_OCTETS, SASL_HEADER, frame
from tests.support.scripted_server import Peer

HANDLE = 7
"""Handle of the first link at this end; each end has numbers of its own."""


class Amqp10Peer:
    """What a script says and hears on channel 3 of its own."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.heartbeats = 0
        """Empty frames that have come."""
        self._has_begun = False
        self._links = 0

    def frame(self) -> bytes:
        """Return the body of the next frame."""
        size = int.from_bytes(self.peer.hear(4), "big")
        rest = self.peer.hear(size - 4)
        return rest[4 * rest[0] - 4 :]

    def expect(self, code: int) -> Composite:
        """Return the next performative, which must be this one."""
        while not (body := self.frame()):
            self.heartbeats += 1
        found = decode_performative(body)[0]
        assert found.code == code, found
        return found

    def say(self, code: int, payload: bytes = b"", /, **fields: object) -> None:
        """Send a performative."""
        self.peer.socket.sendall(frame(3, encode(code, **fields) + payload))

    def offer(self, *mechanisms: str) -> None:
        """Begin SASL."""
        assert self.peer.hear(HEADER_OCTETS) == SASL_HEADER
        offered = encode(spec.SASL_MECHANISMS, sasl_server_mechanisms=list(mechanisms))
        self.peer.socket.sendall(SASL_HEADER + frame(0, offered, spec.FRAME_SASL))

    def greet(self, code: int = 0, **fields: object) -> Composite:
        """Log the client in, and answer its open, all in one piece; return its sasl-init."""
        self.offer("PLAIN", "ANONYMOUS")
        init = self.expect(spec.SASL_INIT)
        outcome = frame(0, encode(spec.SASL_OUTCOME, code=code), spec.FRAME_SASL)
        opened = frame(0, encode(spec.OPEN, container_id="script", **fields))
        self.peer.socket.sendall(outcome + AMQP_HEADER + opened)
        if code == 0:
            assert self.peer.hear(HEADER_OCTETS) == AMQP_HEADER
            self.expect(spec.OPEN)
        return init

    def begin(self) -> None:
        """Answer the begin."""
        self._has_begun = True
        self.expect(spec.BEGIN)
        window = {"next_outgoing_id": 5, "incoming_window": 100, "outgoing_window": 100}
        self.say(spec.BEGIN, remote_channel=0, **window)

    def attach(self, **fields: object) -> Composite:
        """Answer the next attach, under a handle of ours, and the begin before the first; return it."""
        if not self._has_begun:
            self.begin()
        asked = self.expect(spec.ATTACH)
        given = {"name": asked.text("name"), "handle": HANDLE + self._links, "role": False}
        given["source"] = asked.inner("source")
        self._links += 1
        self.say(spec.ATTACH, **{**given, "target": composite(spec.TARGET), "initial_delivery_count": 0, **fields})
        return asked

    def flow(self, **fields: object) -> None:
        """Send a flow."""
        windows = {"next_incoming_id": 0, "incoming_window": 100, "next_outgoing_id": 0, "outgoing_window": 100}
        self.say(spec.FLOW, **windows, **fields)

    def transfer(self, payload: bytes, number: int | None = None, handle: int = HANDLE, **fields: object) -> None:
        """Send a transfer; without a number it continues a delivery."""
        if number is not None:
            fields |= {"delivery_id": number, "delivery_tag": number.to_bytes(4, "big"), "message_format": 0}
        self.say(spec.TRANSFER, payload, handle=handle, **fields)

    def hear_goodbye(self) -> None:
        """Read on until the client has said close or hung up, and answer, drains as well."""
        try:
            while True:
                body = self.frame()
                heard = decode_performative(body)[0] if body else None
                if heard is not None and heard.code == spec.FLOW and heard.flag("drain"):
                    handle = HANDLE + heard.number("handle")
                    count = heard.number("delivery_count") + heard.number("link_credit")
                    self.flow(handle=handle, delivery_count=count, link_credit=0, drain=True)
                elif heard is not None and heard.code == spec.CLOSE:
                    self.say(spec.CLOSE)
                    return
        except (EOFError, ConnectionError):
            return
