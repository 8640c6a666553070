"""Consumer of a spool: connects, writes messages, and acknowledges settled ones; in a separate thread.

Theory of operation. A message stays unacknowledged until Spark has made it durable (or until it is in the spool, by the
option ``acknowledge``), so that the broker's own limits slow its producers. The prefetch and the spool's bound limit
the consumer. If a message does not fit, the consumers are cancelled, messages under way are held up to `HELD_OCTETS`,
and the rest returns to the queue. The consumers resume when half of the spool is free.

A lost connection is opened again, with pauses that double. Only messages in the spool survive a connection;
unacknowledged messages come again, and `Duplicates` recognises them.

`Tags` has the deliveries of a connection that the broker still waits for, and the numbers of their messages.
"""

import logging
import select
import threading
import time
from collections import deque
from typing import Final

from penstock.client.engine.receiver import Delivery
from penstock.client.errors import ChannelClosed, ClientError, LinkClosed, LoginRefused
from pyspark_amqp.spool.duplicates import Duplicates
from pyspark_amqp.spool.errors import DiskFull, SpoolError
from pyspark_amqp.spool.folder import ALL, SpoolFolder
from pyspark_amqp.spool.receiver import Receiver, is_final
from pyspark_amqp.spool.rows import NO_DIGEST, digest_of, estimated_octets
from pyspark_amqp.spool.settings import MESSAGE_ID, NONE, SPOOLED, Settings
from pyspark_amqp.spool.state import LOOK_SECONDS, SpoolState
from pyspark_amqp.spool.writer import Writer

logger = logging.getLogger(__name__)

HELD_OCTETS: Final = 8 << 20
"""Most bytes of messages that are held in memory while the spool is full."""
PAUSE_SECONDS_MAX: Final = 30.0
"""Longest pause between two attempts to connect."""
EXPECTED_HEARTBEATS: Final = 3
"""Heartbeats after a new connection in which messages of the old one are expected again."""
EXPECTED_SECONDS: Final = 180.0
"""The same time in seconds, without heartbeats."""
TELL_SECONDS: Final = 60.0
"""Seconds between two log lines about an unreachable broker."""
WARNED_SHARE: Final = 0.5
"""Share of the broker's time-out after which an unacknowledged message is logged."""
QUIET_SECONDS: Final = 0.1
"""Seconds without a delivery after which an ending query checks whether its queues are empty."""
TURN: Final = 1_000
"""Most deliveries between two checks of everything else."""


class Consumer(threading.Thread):
    """Thread that fills a spool, from `start` to `SpoolState.stop`."""

    def __init__(self, settings: Settings, folder: SpoolFolder, state: SpoolState, duplicates: Duplicates) -> None:
        super().__init__(name="consumer", daemon=True)
        self._settings, self._folder, self._state = settings, folder, state
        self._duplicates = duplicates
        self._tags = Tags()
        self._writer = Writer(state)
        self._held: deque[tuple[str, Delivery]] = deque()
        """Messages that came and do not fit, with their queues."""
        self._connected: Receiver | None = None
        self._connected_at = 0.0
        self._came_at = 0.0
        self._settled = 0
        """Number up to which this thread knows messages to be settled."""
        self._goal: int | None = None
        """Last number that an ending query reads, if so many messages come."""
        self._warned = False
        self._lost_at = -TELL_SECONDS

    def run(self) -> None:
        """Consume until the spool stops, over many connections."""
        attempt = 0
        try:
            while not self._state.stopping:
                server = self._settings.servers[attempt % len(self._settings.servers)]
                attempt += 1
                if self._serve(server):
                    attempt = 0
                if not self._state.stopping:
                    self._pause(attempt)
        except SpoolError as error:
            self._state.fail(error)
        except Exception as error:
            logger.exception("the spool's consumer failed")
            self._state.fail(SpoolError("defect", f"the spool's consumer failed: {error!r}"))
        finally:
            self._leave()

    def _pause(self, attempt: int) -> None:
        seconds = min(self._settings.retry_seconds * 2 ** min(max(attempt - 1, 0), 10), PAUSE_SECONDS_MAX)
        deadline = time.monotonic() + seconds
        while not self._state.stopping and (remaining := deadline - time.monotonic()) > 0:
            select.select([self._state.wake_reader], [], [], remaining)
            self._state.drain_wakes()

    def _serve(self, server: tuple[str, int]) -> bool:
        """Connect to a server and consume until the connection ends; return whether it connected."""
        was_open = False
        where = f"{server[0]}:{server[1]}"
        try:
            self._open(server)
            was_open = True
            self._state.note_connection(None)
            while not self._state.stopping:
                self._turn()
            self._acknowledge()  # Settled by the last request.
        except LoginRefused as error:
            raise SpoolError("refused", str(error)) from error
        except ClientError as error:
            if is_final(error):
                text = f"the broker at {where} refuses {', '.join(self._settings.queues)}: {error}"
                raise SpoolError("refused", text) from error
            closed = isinstance(error, (ChannelClosed, LinkClosed))
            told = f"closed the channel: {error}" if closed else f"is away: {error}"
            self._lost(f"the broker at {where} {told}")
        except DiskFull as error:
            self._state.note_disk(str(error))
        finally:
            self._leave()
        return was_open

    def _lost(self, text: str) -> None:
        now = time.monotonic()
        if now - self._lost_at >= TELL_SECONDS or self._connected is not None:
            self._lost_at = now
            logger.warning("%s; what was not acknowledged comes again", text)
        self._state.note_connection(text)

    def _leave(self) -> None:
        """Close the connection, and drop all messages that are not in the spool."""
        if self._connected is not None:
            self._connected.close()
        self._connected = None
        for row in self._writer.drop():
            self._duplicates.withdraw(row.number, row.delivery.properties.message_id)
        self._held.clear()
        self._tags.clear()

    def _open(self, server: tuple[str, int]) -> None:
        self._connected = receiver = Receiver(self._settings, server)
        self._folder.claim(self._settings.owner(receiver.broker), not self._state.log.frames)
        self._note_position(self._state.settled)
        self._state.note_disk(None)
        receiver.open()
        if self._state.drains and self._goal is None and (backlog := receiver.backlog()) is not None:
            self._goal = self._state.log.tail + backlog
            if not backlog:
                self._state.note_target(self._state.log.tail)
        self._connected_at = self._came_at = time.monotonic()
        self._duplicates.expect_all()
        receiver.resume()

    def _note_position(self, settled: int) -> None:
        """Store Spark's position and the possibly acknowledged numbers, before an acknowledgement is sent."""
        at_once = self._settings.acknowledge == SPOOLED
        self._folder.write_position(settled, ALL if at_once else max(settled, self._folder.acknowledged))

    @property
    def _receiver(self) -> Receiver:
        """Connection to the broker, while connected."""
        assert self._connected is not None
        return self._connected

    # -- one turn ----------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        """Read, write, acknowledge, and wait for more."""
        receiver = self._receiver
        came = receiver.take(TURN)
        for queue, delivery in came:
            self._take(queue, delivery)
        self._write()
        self._acknowledge()
        self._go_on()
        self._expire()
        if self._state.drains:
            self._look_for_the_end(bool(came))
        self._state.paused = not receiver.consuming
        due = min(receiver.beat(), self._writer.due(), self._warn())
        if not came:
            self._wait(due)

    def _wait(self, seconds: float) -> None:
        select.select([self._receiver.fileno(), self._state.wake_reader], [], [], max(0.0, seconds))
        self._state.drain_wakes()

    def _take(self, queue: str, delivery: Delivery) -> None:
        """Take a message into the next frame; or report it as a duplicate, or as too large."""
        self._came_at = now = time.monotonic()
        octets = estimated_octets(delivery)
        if self._held or not self._writer.fits(octets):
            self._hold(queue, delivery)
            return
        digest = digest_of(queue, delivery) if self._settings.duplicates != NONE else NO_DIGEST
        known = self._duplicates.recognise(digest) if delivery.redelivered else None
        if known is not None:
            self._tags.add(delivery, known, now)
            delivery.forget()
            return
        message_id = delivery.properties.message_id
        lost = delivery.redelivered and message_id is not None and self._duplicates.was_acknowledged(digest)
        if lost or (self._settings.duplicates == MESSAGE_ID and self._duplicates.has_id(message_id)):
            delivery.accept()
            return
        number = self._writer.add(queue, delivery, digest, octets)
        self._tags.add(delivery, number, now)
        self._duplicates.add(number, digest, message_id)

    def _hold(self, queue: str, delivery: Delivery) -> None:
        """Hold a message until there is room, or return it to its queue."""
        self._receiver.pause()
        held = sum(len(each.body) for _, each in self._held)
        if self._held and held + len(delivery.body) > HELD_OCTETS:
            delivery.release()
        else:
            self._held.append((queue, delivery))

    def _write(self) -> None:
        try:
            if self._writer.write_due():
                self._state.note_disk(None)
        except DiskFull as error:
            self._receiver.pause()
            self._state.note_disk(str(error))

    def _acknowledge(self) -> None:
        """Acknowledge messages that may be acknowledged, and delete settled ones."""
        settled = self._state.settled
        upto = self._state.log.tail if self._settings.acknowledge == SPOOLED else settled
        try:
            self._note_position(settled)
            waiting, numbers = self._tags.take(upto)
            if waiting:
                # First: its arrival is unknown when the connection ends.
                self._duplicates.acknowledged(numbers)
                for delivery in waiting:
                    delivery.accept()
                self._receiver.flush()
            if settled > self._settled:
                self._duplicates.settled(settled)
                self._settled = settled
                self._writer.delete(settled)
            if self._state.full is not None and not self._writer.failing:
                self._state.note_disk(None)
        except DiskFull as error:
            self._state.note_disk(str(error))

    def _warn(self) -> float:
        """Log a late acknowledgement; return the seconds until one may be late."""
        limit, age = self._settings.consumer_timeout, self._tags.age(time.monotonic())
        late = bool(limit) and age > WARNED_SHARE * limit
        if late and not self._warned:
            logger.warning(
                "a message of %s has waited %.1f s for its acknowledgement, and the broker closes the channel after"
                " %g s (consumer_timeout): make batches shorter, trigger more often, raise it, or take"
                " acknowledge=spooled",
                ", ".join(self._settings.queues), age, limit,
            )  # fmt: skip
        self._warned = late
        return LOOK_SECONDS if late or not limit else WARNED_SHARE * limit - age

    def _go_on(self) -> None:
        """Take held messages and resume consuming when there is room; raise `SpoolError` if there can be none."""
        if self._receiver.consuming:
            return
        free = self._writer.half_free(self._settled)
        if free and self._held:
            held, self._held = self._held, deque()
            while held:
                queue, delivery = held[0]
                if not self._writer.fits(estimated_octets(delivery)):
                    break
                held.popleft()
                self._take(queue, delivery)
            self._held.extendleft(reversed(held))
        if self._held and self._writer.empty(self._settled):
            self._writer.delete(self._settled)
            queue, delivery = self._held[0]
            if not self._writer.fits(estimated_octets(delivery)):
                raise SpoolError(
                    "large",
                    f"a message of {len(delivery.body)} bytes in {queue} does not fit into the spool: raise option "
                    f"spoolBytes = {self._settings.spool_octets}",
                )
        if free and not self._held and self._state.full is None:
            self._receiver.resume()

    def _expire(self) -> None:
        if self._duplicates.expecting:
            patience = EXPECTED_HEARTBEATS * self._settings.heartbeat or EXPECTED_SECONDS
            if time.monotonic() - self._connected_at > patience:
                self._duplicates.expire(self._settled)

    def _look_for_the_end(self, busy: bool) -> None:
        """Check whether all present messages have come, for an ending query."""
        if self._state.target is not None:
            return
        tail = self._state.log.tail
        if self._goal is not None and tail >= self._goal:
            self._state.note_target(self._goal)
        elif not busy and self._receiver.consuming and not self._writer.pending and self._quiet():
            self._came_at = time.monotonic()
            if self._receiver.is_empty():
                self._state.note_target(self._state.log.tail)

    def _quiet(self) -> bool:
        return time.monotonic() - self._came_at >= QUIET_SECONDS


class Tags:
    """Deliveries in the order of arrival, which end with their connection."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Delivery, int, float]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, delivery: Delivery, number: int, now: float) -> None:
        """Add a delivery at a monotonic second; a repeated message keeps its number."""
        self._waiting.append((delivery, number, now))

    def take(self, upto: int) -> tuple[list[Delivery], list[int]]:
        """Return deliveries to acknowledge, and their numbers.

        Deliveries behind a number beyond `upto` wait for that number.
        """
        found, numbers = [], []
        while self._waiting and self._waiting[0][1] <= upto:
            delivery, number, _ = self._waiting.popleft()
            found.append(delivery)
            numbers.append(number)
        return found, numbers

    def age(self, now: float) -> float:
        """Return the seconds since the oldest waiting delivery."""
        return now - self._waiting[0][2] if self._waiting else 0.0

    def clear(self) -> None:
        """Drop all deliveries: their connection is closed."""
        self._waiting.clear()
