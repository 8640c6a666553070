"""Large messages of dialogues: sent in frames, and received a share at a time."""

from __future__ import annotations

from collections.abc import Callable

from penstock.content.properties import Properties
from penstock.core.large_bodies import LargeBodies, LargeBody, PieceListener
from penstock.driver.driver import BrokerDriver
from penstock.wire.amqp10 import spec
from tests.support.amqp10_dialogue import Amqp10Dialogue, Heard, performative, sender
from tests.support.driven_connection import Dialogue, Frame, publish

FRAME = 60_000


def joined(body: LargeBody) -> bytes:
    """Return all octets of a body that is in memory."""
    return body.open(LargeBodies(), body.spans, PieceListener()).take(body.octets)


def persistent(queue: str, body: bytes) -> bytes:
    """Return the publish of a persistent message, whose large body goes to the store."""
    return publish(queue, body, properties=Properties(delivery_mode=2))


def frames_of(message: bytes, delivery_id: int, handle: int = 0, channel: int = 0, **fields: object) -> list[bytes]:
    """Return the transfer frames of a message of AMQP 1.0."""
    starts = range(0, max(len(message), 1), FRAME)
    return [
        performative(
            spec.TRANSFER,
            channel,
            message[start : start + FRAME],
            handle=handle,
            delivery_id=delivery_id,
            delivery_tag=delivery_id.to_bytes(4, "big"),
            message_format=0,
            more=start + FRAME < len(message),
            **fields,
        )
        for start in starts
    ]


def serve(driver: BrokerDriver) -> None:
    """Let the broker handle input that waits."""
    while driver.scheduler.begin_turn():
        driver.scheduler.serve()


def received(client: Amqp10Dialogue, between: Callable[[], object] = lambda: None) -> list[Heard]:
    """Return all that the broker writes to a peer of AMQP 1.0, a share at a time."""
    found: list[Heard] = []
    for _ in range(2000):
        heard = client.listen()
        found += heard
        if not heard and not between():
            return found
    raise AssertionError("the output has no end")


def frames_received(client: Dialogue, between: Callable[[], object] = lambda: None) -> list[Frame]:
    """Return all that the broker writes to a client of AMQP 0-9-1, a share at a time."""
    found: list[Frame] = []
    for _ in range(2000):
        frames = client.listen()
        found += frames
        if not frames and not between():
            return found
    raise AssertionError("the output has no end")


def transfers(heard: list[Heard], handle: int = 1) -> list[Heard]:
    """Return the transfer frames on a link."""
    return [each for each in heard if each.name == "transfer" and each.field("handle") == handle]


def payload(heard: list[Heard], handle: int = 1) -> bytes:
    return b"".join(each.payload for each in transfers(heard, handle))


def filled(driver: BrokerDriver | None, *messages: bytes) -> Amqp10Dialogue:
    """Return a peer that has sent messages to the queue q."""
    client = sender(driver)
    for number, message in enumerate(messages):
        for frame in frames_of(message, number, settled=True):
            client.say(frame)
    return client
