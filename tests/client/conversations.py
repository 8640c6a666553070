"""What tests of both shells share: their names, protocols, and queues of a broker that fill at once."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import pytest

import penstock
from penstock.client.aio import Connection

PROTOCOLS = ("amqp091", "amqp10")
both_protocols = pytest.mark.parametrize("protocol", PROTOCOLS)

_NUMBERS = itertools.count(1)


def fresh(name: str = "q") -> str:
    """Return a name that no other test has."""
    return f"client-{name}-{next(_NUMBERS)}"


def url_of(broker_url: str, protocol: str, **options: object) -> str:
    """Return the URL of the broker with options."""
    fields = "&".join(f"{name}={value}" for name, value in {"protocol": protocol, **options}.items())
    return f"{broker_url}?{fields}"


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until a condition is true; the time-out of the test ends it otherwise."""
    while not condition():  # noqa: ASYNC110 - the condition is the client's state, which has no event.
        await asyncio.sleep(0)


async def depth_of(connection: Connection, queue: str) -> int:
    """Return the messages of a queue, by Penstock's own account."""
    found = (await connection.why(queue)).depth.messages
    assert isinstance(found, int)
    return found


async def fill(connection: Connection, queue: str) -> penstock.Publisher:
    """Publish until the broker takes no more; return the publisher, which has to wait now."""
    publisher = connection.publisher(queue, window=1)
    while True:
        try:
            await publisher.send(b"filler", timeout=0.2)
        except (penstock.FlowControlTimeout, penstock.ConfirmTimeout):
            return publisher


async def received(connection: Connection, queue: str, most: int = 1 << 30) -> list[bytes]:
    """Take all messages off a queue."""
    bodies: list[bytes] = []
    async with connection.receiver(queue) as receiver:
        while len(bodies) < most:
            message = await receiver.receive(timeout=0.3)
            if message is not None:
                bodies.append(message.body)
                message.accept()
            elif not await receiver.count():
                break  # Messages that came before the answer would be counted.
    return bodies


CONTRACT_OPTIONS = {"flow_control_wait_failure": 0.6, "flow_control_wait_notify_period": 0.2}
FIRST_WORDS = "Message send delayed by 0.2s due to broker enforced flow control"
"""Options of the contract, in a shorter time, and how its warning begins."""


def check_contract(error: penstock.FlowControlTimeout, queue: str, sent: int, came: int) -> None:
    """Check that what the error says of the message is what has become of it: it is in no queue."""
    assert error.seconds == 0.6
    assert error.blocked.queue == queue
    assert came == sent
    assert 1 <= sent <= 2
