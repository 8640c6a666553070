"""One client's side of a connection to a driver, as bytes in and frames out: no socket, no loop, time by hand."""

from __future__ import annotations

from typing import Final, Self

from penstock.connections.connection import Connection
from penstock.connections.connection_limits import ConnectionLimits
from penstock.connections.peer import Peer
from penstock.content.properties import Properties
from penstock.core.broker import Broker
from penstock.core.settings.limits import Defaults
from penstock.core.vhost import VirtualHost
from penstock.driver.driver import BrokerDriver
from penstock.flow.series import SLOT_S
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import Method, decode_method, frame, method_frame
from penstock.wire.amqp091.content_header import encode_header
from penstock.wire.sasl import plain_response

Frame = tuple[int, int, bytes]
"""Kind, channel and payload."""


def make_driver(policy: ConnectionLimits | None = None, now: float = 0.0) -> BrokerDriver:
    """Return a driver without connections, at a time in seconds."""
    core = Broker(Defaults())
    core.add_vhost("/")
    driver = BrokerDriver(core, policy or ConnectionLimits(), "seed", "0")
    if now:
        driver.begin(now)
    return driver


def output_of(connection: Connection) -> bytes:
    """Take the pending output of a connection as one."""
    return b"".join(connection.take_output())


def cut(data: bytes) -> list[Frame]:
    """Cut octets into frames; there must be nothing left over."""
    frames: list[Frame] = []
    pos = 0
    while pos < len(data):
        size = int.from_bytes(data[pos + 3 : pos + 7], "big")
        assert data[pos + 7 + size] == spec.FRAME_END
        frames.append((data[pos], int.from_bytes(data[pos + 1 : pos + 3], "big"), data[pos + 7 : pos + 7 + size]))
        pos += size + 8
    return frames


def publish(
    queue: str,
    body: bytes,
    channel: int = 1,
    properties: Properties | None = None,
    frame_max: int = 1 << 17,
    exchange: str = "",
) -> bytes:
    """Return the frames of a publish to a queue, or to an exchange by that key."""
    out = method_frame(channel, spec.BASIC_PUBLISH, exchange=exchange, routing_key=queue)
    out += frame(spec.FRAME_HEADER, channel, encode_header(len(body), properties or Properties()))
    for start in range(0, len(body), frame_max - 8):
        out += frame(spec.FRAME_BODY, channel, body[start : start + frame_max - 8])
    return out


GOES_ON: Final = "AMQPStorm"
"""Product of a client that bears what an unknown one does, and goes on writing after connection.blocked."""


class Dialogue:
    """A connection that has been opened, with channel 1."""

    def __init__(
        self,
        driver: BrokerDriver,
        frame_max: int = 131072,
        product: str | None = None,
        obeys: bool = False,
        heartbeat: int = 0,
        password: str = "guest",
        platform: str = "",
        announces: tuple[str, ...] = (),
        user: str = "guest",
        vhost: str = "/",
        peer: str = "127.0.0.1:1",
    ) -> None:
        """Open it as a client of this product; as one that goes on writing when it is blocked, if none is named."""
        if product is None:
            product = "" if obeys else GOES_ON
        self.driver = driver
        self.connection = driver.connect(Peer(peer, True))
        self._vhost = vhost
        self.say(b"AMQP\x00\x00\x09\x01")
        login = plain_response(user, password)
        capabilities: dict[str, object] = {"connection.blocked": True} | ({"channel.flow": True} if obeys else {})
        capabilities.update(dict.fromkeys(announces, True))
        properties: dict[str, object] = {"product": product, "platform": platform, "capabilities": capabilities}
        self.say(
            method_frame(0, spec.CONNECTION_START_OK, client_properties=properties, mechanism="PLAIN", response=login)
        )
        self.say(method_frame(0, spec.CONNECTION_TUNE_OK, channel_max=100, frame_max=frame_max, heartbeat=heartbeat))
        self.say(method_frame(0, spec.CONNECTION_OPEN, virtual_host=vhost))
        assert self.names(method_frame(1, spec.CHANNEL_OPEN)) == ["channel.open-ok"]

    def say(self, data: bytes) -> list[Frame]:
        """Send octets in one piece, let the broker make its turn, and return what comes back."""
        self.connection.receive(data)
        return self.listen()

    def listen(self, now: float | None = None) -> list[Frame]:
        """Let the broker make its turns, at a time if one is given, and return what comes."""
        if now is not None:
            self.driver.begin(now)
        while self.driver.run_turn():
            pass
        return cut(output_of(self.connection))

    def names(self, data: bytes) -> list[str]:
        """Send octets and return the names of the methods that come back."""
        return [decode_method(payload).name for kind, _, payload in self.say(data) if kind == spec.FRAME_METHOD]

    @property
    def vhost(self) -> VirtualHost:
        return self.driver.broker.vhosts[self._vhost]

    def declare(self, queue: str, **arguments: object) -> Self:
        """Declare a queue; `capacity_messages=5` is the argument capacity-messages."""
        table = {name.replace("_", "-"): value for name, value in arguments.items()}
        assert self.names(method_frame(1, spec.QUEUE_DECLARE, queue=queue, arguments=table)) == ["queue.declare-ok"]
        return self

    def consume(self, queue: str, tag: str = "c1", prefetch: int = 0, **how: object) -> list[Frame]:
        """Consume on channel 1, with at most so many unacknowledged messages if a number is given."""
        if prefetch:
            self.say(method_frame(1, spec.BASIC_QOS, prefetch_count=prefetch))
        return self.say(method_frame(1, spec.BASIC_CONSUME, queue=queue, consumer_tag=tag, **how))

    def confirm(self) -> Self:
        """Turn confirms on."""
        assert self.names(method_frame(1, spec.CONFIRM_SELECT)) == ["confirm.select-ok"]
        return self


def refused(client: Dialogue, data: bytes) -> tuple[str, object, object]:
    """Send octets that are an error; return the method that says so, its code and its text."""
    (frame,) = client.say(data)
    method = decode_method(frame[2])
    return method.name, method.args["reply_code"], method.args["reply_text"]


def methods(frames: list[Frame]) -> list[Method]:
    return [decode_method(payload) for kind, _, payload in frames if kind == spec.FRAME_METHOD]


def mandatory(body: bytes, queue: str = "q", channel: int = 1) -> bytes:
    out = method_frame(channel, spec.BASIC_PUBLISH, routing_key=queue, mandatory=True)
    properties = encode_header(len(body), Properties(message_id="m"))
    return out + frame(spec.FRAME_HEADER, channel, properties) + frame(spec.FRAME_BODY, channel, body)


def drain(driver: BrokerDriver, queue: str) -> None:
    driver.broker.vhosts["/"].queues[queue].purge(driver.broker.now)


def make_full_driver() -> BrokerDriver:
    """Return a driver with two virtual hosts of seven and five bound queues, and three connections."""
    driver = make_driver()
    other = driver.broker.add_vhost("other")
    for vhost, count in ((driver.broker.vhosts["/"], 7), (other, 5)):
        vhost.declare_exchange("x", "topic", {}, False, False, False)
        for number in range(count):
            queue = vhost.declare_queue(f"q{number}", {}, False, False, None, None)
            vhost.bind("x", queue, None, str(number), {})
    for _ in range(3):
        Dialogue(driver)
    return driver


def blocked_publisher(**who: object) -> tuple[BrokerDriver, Dialogue, list[Frame]]:
    """A client that has just published what closes the gate of queue q (stop 1)."""
    driver = make_driver()
    driver.begin(100.0)
    peer = Dialogue(driver, **who)  # type: ignore[arg-type]
    peer.declare("q", capacity_messages=10, stop_messages=1, resume_messages=0)
    peer.say(publish("q", b"1"))
    return driver, peer, peer.say(publish("q", b"2"))


GATED = {"capacity_messages": 10, "stop_messages": 0, "resume_messages": 0, "hold_deadline": 5}


def stopped_publisher(driver: BrokerDriver, product: str | None = None, **arguments: object) -> Dialogue:
    """Return a client with confirms that has closed the gate of q, and has waited a whole hold deadline."""
    driver.begin(100.0)
    peer = Dialogue(driver, product=product)
    peer.declare("q", **{**GATED, **arguments})
    peer.confirm()
    peer.say(publish("q", b"first"))
    assert [method.name for method in methods(peer.listen(105.0))] == ["basic.ack"]
    return peer


def sampled(driver: BrokerDriver, slot: int) -> None:
    """Let the sampler make its pass at the end of a slot."""
    driver.begin(slot * SLOT_S)
    driver.stats.sample(driver.connections)
