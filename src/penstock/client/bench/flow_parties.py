"""Parties of an experiment: publishers that keep a window of confirms full, and a consumer with a pace."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from typing import Any, Final

from penstock.client import aio
from penstock.client.bench.target import Target, with_options
from penstock.client.engine.outcomes import CONFIRMED, REFUSED, WINDOW, Blocked, Receipt
from penstock.client.engine.receiver import Delivery
from penstock.errors import PenstockError

BODY_OCTETS: Final = 1024
CHARGE: Final = BODY_OCTETS + 240
"""Charge of a bench message in Penstock: body, no properties, overhead."""
ARTEMIS_CHARGE: Final = 1456
"""Bytes that Artemis 2.44 counts for such a message."""
RETRY_S: Final = 0.005
"""Seconds after a refusal until the next publish; doubled with each refusal, up to `RETRY_MOST_S`."""
RETRY_MOST_S: Final = 0.08
PURGE_S: Final = 0.5
"""Seconds without a message after which a queue counts as empty."""
PATIENCE_S: Final = 30.0
"""Seconds to wait for a message before an experiment fails."""


class Place:
    """Broker of an experiment, and the protocols of its publishers in turn; the consumer uses the last protocol."""

    def __init__(self, target: Target, protocols: tuple[str, ...] = ("auto",)) -> None:
        self.target = target
        self.protocols = protocols

    @property
    def is_penstock(self) -> bool:
        """Return whether the broker's queues have a capacity and a gate."""
        return self.target.is_penstock

    @property
    def makes_queues(self) -> bool:
        """Return whether queues are created by the first link, bounded by the broker's settings for their names.

        Such a broker, for example Artemis, speaks only AMQP 1.0; see `queue_name`.
        """
        return self.target.protocol == "amqp10" and not self.is_penstock

    def queue_name(self, capacity: int | None) -> str:
        """Return a new name with the capacity in bytes: Artemis' address settings match the words of the name."""
        return f"penstock-bench.{'free' if capacity is None else capacity}.{secrets.token_hex(4)}"

    async def declare(self, looking: aio.Connection, queue: str, capacity: int | None, **settings: Any) -> None:
        """Declare the queue of an experiment."""
        if not self.makes_queues:
            bound = {} if capacity is None else self.bounded(capacity)
            await looking.declare_queue(queue, durable=False, **bound, **settings)

    async def purge(self, looking: aio.Connection, queue: str) -> int:
        """Remove all messages of a queue; return their number."""
        if not self.makes_queues:
            return await looking.purge_queue(queue)
        receiver = await looking.receiver(queue, prefetch=1000)
        found = 0
        while (message := await receiver.receive(PURGE_S)) is not None:
            message.accept()
            found += 1
        await receiver.close()
        return found

    async def delete(self, looking: aio.Connection, queue: str) -> None:
        """Delete the queue of an experiment; a queue that the broker has created is emptied, and deleted by the
        broker."""
        if self.makes_queues:
            await self.purge(looking, queue)
        else:
            await looking.delete_queue(queue)

    async def connect(self, index: int) -> aio.Connection:
        """Connect by the protocol of the publisher with this number, -1 for the consumer."""
        # An experiment waits on purpose. Penstock ends a wait at its hold deadline, and would log that each time.
        options: dict[str, Any] = {"reconnect": "false", "flow_control_wait_notify_period": 3600}
        if not self.is_penstock:
            options["flow_control_wait_failure"] = -1
        options["protocol"] = self.protocols[index % len(self.protocols) if index >= 0 else -1]
        return await aio.connect(with_options(self.target.url, **options))

    def bounded(self, capacity: int) -> dict[str, Any]:
        """Return the settings of a queue of this capacity in bytes that blocks (or refuses) its publishers."""
        if self.is_penstock:
            return {"capacity_bytes": capacity}
        return {"x_max_length_bytes": capacity, "x_overflow": "reject-publish"}

    def most(self, capacity: int) -> int:
        """Return how many messages fit at most, as the broker counts them."""
        if self.makes_queues:
            return capacity // ARTEMIS_CHARGE
        return capacity // (CHARGE if self.is_penstock else BODY_OCTETS)


class Publisher:
    """Publisher that keeps a window of unconfirmed messages full.

    After a refusal the publisher pauses, and restarts with one message and twice as many for each confirm: resending
    refused messages at once would measure the bench itself.
    """

    def __init__(self, connection: aio.Connection, publisher: aio.Publisher, index: int, window: int) -> None:
        self.connection = connection
        self.publisher = publisher
        self.index = index
        self.window = window
        self.published = self.confirmed = self.refused = 0
        self.error = ""
        """Reason of the publisher's end."""
        self.longest_s = 0.0
        """Longest time between two confirmations, or since the beginning."""
        self.confirmed_at: list[float] = []
        self._last = 0.0
        self._most: int | None = None
        self._is_stopped = False
        self._allowed = window
        self._is_pausing = False
        self._retry_s = RETRY_S
        self._task: asyncio.Task[None] | None = None

    def start(self, count: int | None = None) -> None:
        """Publish `count` messages; None: until `stop`."""
        self._last = time.monotonic()
        self._most = count
        self._fill()

    def _body(self) -> bytes:
        return self.index.to_bytes(4, "big") + (self.published + 1).to_bytes(8, "big") + bytes(BODY_OCTETS - 12)

    def _fill(self) -> None:
        """Publish while there is room, in the turn that brought a confirm, so that no switch of tasks is measured."""
        while self._may_publish():
            try:
                found = self.publisher.try_publish(self._body())
            except PenstockError as error:
                self.error = str(error)
                return
            if isinstance(found, Blocked):
                if found.cause != WINDOW and self._task is None:
                    self._task = asyncio.create_task(self._wait())
                return
            self._count(found)

    def _may_publish(self) -> bool:
        if self._is_stopped or self._is_pausing or (self._most is not None and self.published >= self._most):
            return False
        return self.published - self.confirmed - self.refused < self._allowed

    def _end_pause(self) -> None:
        self._is_pausing = False
        self._fill()

    async def _wait(self) -> None:
        """Wait for room without a confirm."""
        try:
            self._count(await self.publisher.publish(self._body()))
        except PenstockError as error:
            self.error = str(error)
            return
        self._task = None
        self._fill()

    def _count(self, receipt: Receipt) -> None:
        self.published += 1
        receipt.add_callback(self._note)

    def _note(self, receipt: Receipt) -> None:
        now = time.monotonic()
        if receipt.outcome == CONFIRMED:
            self.confirmed += 1
            self.longest_s = max(self.longest_s, now - self._last)
            self._last = now
            self.confirmed_at.append(now)
            self._allowed, self._retry_s = min(self.window, 2 * self._allowed), RETRY_S
            self._fill()
        elif receipt.outcome == REFUSED:
            self.refused += 1
            self._allowed = 1
            if not self._is_pausing:
                self._is_pausing = True
                asyncio.get_running_loop().call_later(self._retry_s, self._end_pause)
                self._retry_s = min(2 * self._retry_s, RETRY_MOST_S)

    async def stop(self) -> None:
        """Stop publishing, and close the connection."""
        self._is_stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        await self.connection.close(timeout=0)


class Consumer:
    """Consumer that takes messages at a pace; it records their publishers and checks their order."""

    def __init__(self, receiver: aio.Receiver, rate: float) -> None:
        self.receiver = receiver
        self.rate = rate
        self.order: list[int] = []
        """Publishers, in the order of their consumed messages."""
        self.out_of_order = 0
        self.starved_s = 0.0
        """Seconds in which a message was due and none was available."""
        self._last: Counter[int] = Counter()

    async def run(self, seconds: float) -> None:
        """Take and accept messages for `seconds`."""
        end = time.monotonic() + seconds
        due = time.monotonic()
        while (now := time.monotonic()) < end:
            while due <= now:
                delivery = self.receiver.receive_nowait()
                if delivery is None:
                    delivery = await self.receiver.receive(max(0.001, end - now))
                    if delivery is None:
                        self.starved_s += time.monotonic() - now
                        return
                    late = time.monotonic() - due
                    if late > 1 / self.rate:
                        self.starved_s += late
                        due += late
                self._take(delivery)
                delivery.accept()
                due += 1 / self.rate
            await asyncio.sleep(max(0.0005, due - time.monotonic()))

    async def take(self) -> Delivery:
        """Take one message without accepting it."""
        async with asyncio.timeout(PATIENCE_S):
            delivery = await self.receiver.receive()
        assert delivery is not None
        self._take(delivery)
        return delivery

    def _take(self, delivery: Delivery) -> None:
        body = delivery.body
        index, number = int.from_bytes(body[:4], "big"), int.from_bytes(body[4:12], "big")
        if number <= self._last[index]:
            self.out_of_order += 1
        self._last[index] = number
        self.order.append(index)


async def publishers(place: Place, queue: str, windows: list[int]) -> list[Publisher]:
    """Connect publishers with these windows, each on a connection of its own."""
    return [await publisher(await place.connect(index), queue, index, window) for index, window in enumerate(windows)]


async def publisher(connection: aio.Connection, queue: str, index: int, window: int) -> Publisher:
    """Return a publisher on a connection."""
    options: dict[str, Any] = {"window": window, "producerWindowSize": -1, "durable": False}
    return Publisher(connection, connection.publisher(queue, **options), index, window)
