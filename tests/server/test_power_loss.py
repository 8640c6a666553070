"""Power failures at any moment: confirmed messages are there, with the whole broker on real files.

The broker's calls that change files are recorded together with its client's traffic; see
tests/store/test_power_loss.py. A broker is started on each disk that a power failure could leave.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

import penstock
from penstock.content.properties import Properties
from penstock.errors import StoreError
from penstock.protocols.amqp091.content_frames import body_of
from penstock.settings.config import Settings
from penstock.settings.start import NO_LOG
from tests.profiles import thorough
from tests.support import disk_recording
from tests.support.brokers import serving
from tests.support.disk_recording import Marks, Record
from tests.support.power_failure import fail_everywhere, in_memory
from tests.support.raw_channel import Channel, Connection
from tests.support.simulated_disk import Disk, Left, put

BATCHES: Final = 20
KEPT: Final = Properties(delivery_mode=2)
SIZES: Final = (10, 500, 5_000, 40_000)
SHARE: Final = 0.2 if thorough() else 0.02
"""Of all disks so many are given to a broker: to start one takes much longer than to open a store."""
SHARE_OF_LIES: Final = 0.2 if thorough() else 0.01
"""And of those that lied, which most of the failures show."""
FEWEST: Final = 300 if thorough() else 20


class Client:
    """Publishes under confirms and takes messages, and puts a mark before and after whatever it does."""

    def __init__(self, connection: Connection, marks: Marks) -> None:
        self._channel: Channel = connection.channel()
        self._connection = connection
        self._marks = marks
        self._sent = 0
        self._taken = 0

    def work(self, chance: random.Random) -> None:
        self._channel.queue_declare("q", durable=True)
        self._marks.put("declared", 0)
        self._channel.confirm_select()
        for _ in range(BATCHES):
            self._publish(chance)
            for _ in range(chance.randint(0, min(6, self._sent - self._taken))):
                self._take()

    def _publish(self, chance: random.Random) -> None:
        numbers = range(self._sent + 1, self._sent + 1 + chance.randint(1, 5))
        self._sent = numbers[-1]
        self._marks.put("sent", self._sent)
        for number in numbers:
            self._channel.publish(body(number, chance.choice(SIZES)), routing_key="q", properties=KEPT)
        confirms = self._channel.confirms
        self._connection.wait_for(lambda: confirms.outstanding == 0, "the confirmations")
        self._marks.put("confirmed", self._sent)

    def _take(self) -> None:
        self._marks.put("taken", self._taken + 1)
        delivery = self._channel.get("q", no_ack=True)
        self._taken += 1
        assert number_of(bytes(delivery.body)) == self._taken


def body(number: int, size: int) -> bytes:
    return b"%d %s" % (number, random.Random(number).randbytes(size))


def number_of(found: bytes) -> int:
    """Return the number of a message; it is as it was sent."""
    number, _, octets = found.partition(b" ")
    assert found == body(int(number), len(octets))
    return int(number)


@dataclass
class Promises:
    """What the client knows."""

    declared: bool = False
    sent: int = 0
    confirmed: int = 0
    taken: int = 0
    """Up to which message all may be gone; none has to be, for nobody promised that."""

    def hear(self, record: Record) -> None:
        if record.kind == "M":
            setattr(self, record.name, record.at or True)

    def broken(self, found: list[int] | None) -> str:
        """Say which promise a queue with these messages breaks; None is no queue."""
        if found is None:
            return "the queue is gone" if self.declared else ""
        if found and found != list(range(found[0], found[-1] + 1)):
            return f"there are {found}"
        if found and found[-1] > self.sent:
            return f"{found[-1]} was never sent"
        missing = [number for number in range(self.taken + 1, self.confirmed + 1) if number not in found]
        return f"of {self.confirmed} that were confirmed {missing} are lost" if missing else ""


@dataclass
class Judge:
    """Starts a broker with what power failures leave."""

    folder: Path
    disk: Disk
    loop: asyncio.AbstractEventLoop
    chance: random.Random
    share: float
    promises: Promises = field(default_factory=Promises)
    known: dict[Left, list[int] | None] = field(default_factory=dict)
    """What a broker had after each of the power failures; not those after which it did not start."""
    wrong: list[str] = field(default_factory=list)

    def look(self, left: Left, where: str) -> None:
        if left not in self.known:
            if self.chance.random() > self.share:
                return
            put(self.disk.contents(left), self.folder)
            try:
                self.known[left] = self.loop.run_until_complete(recovered(self.folder))
            except StoreError as error:
                self.wrong.append(f"{where}: {error}")
                return
        why = self.promises.broken(self.known[left])
        if why:
            self.wrong.append(f"{where}: {why}; the failure left {left}")


async def recovered(folder: Path) -> list[int] | None:
    """Start a broker, and return the numbers of the messages in its queue, in order; None if there is no queue."""
    settings = Settings(flow_log=NO_LOG, audit_log=NO_LOG)
    async with penstock.Broker(listen="127.0.0.1:0", data=folder, settings=settings) as broker:
        queue = broker.driver.broker.vhosts["/"].queues.get("q")
        if queue is None:
            return None
        messages = sorted(queue.ready_queue.messages(), key=lambda message: message.sequence)
        return [number_of(body_of(message.content)) for message in messages]


def recorded(folder: Path, lies: set[str]) -> list[Record]:
    """Return what a broker did to its files while a client used it, with the client's marks.

    Files of which the disk lies are never synchronised from the moment on when there is a queue.
    """
    data, record = folder / "data", folder / "record"
    data.mkdir()
    marks = Marks(record)
    with ExitStack() as stack:
        options = ("--data", str(data), "--flow-log", NO_LOG, "--audit-log", NO_LOG)
        environment = disk_recording.environment(disk_recording.library(folder), data, record)
        broker = stack.enter_context(serving(folder, *options, environment=environment))
        with Connection(broker.url) as connection:
            Client(connection, marks).work(random.Random(5))
        broker.kill()
    marks.close()
    records = list(disk_recording.read(record))
    declared = next(at for at, each in enumerate(records) if each.name == "declared")
    return [each for at, each in enumerate(records) if at < declared or each.kind != "S" or each.name not in lies]


LOG, COUNT = "messages.sqlite-wal", "messages.commits"


@pytest.mark.slow
@pytest.mark.parametrize(
    "lies",
    [
        pytest.param(set(), id="as it is"),
        pytest.param({LOG}, id="lies of the log", marks=pytest.mark.long),
        pytest.param({LOG, COUNT}, id="lies of both", marks=pytest.mark.long),
    ],
)
def test_confirmed_messages_are_recovered_after_a_power_failure_at_any_point(
    lies: set[str],
) -> None:
    """And where the disk lies, this sees it: so does the broker, by its count, where the count came to the disk."""
    loop, chance, disk = asyncio.new_event_loop(), random.Random(3), Disk()
    with in_memory() as folder:
        records = recorded(folder, lies)
        judge = Judge(folder / "left", disk, loop, chance, SHARE_OF_LIES if lies else SHARE)
        fail_everywhere(records, disk, judge.look, judge.promises.hear, chance)
        loop.close()
    print(f"{len(judge.known):,} power failures")
    assert judge.promises.confirmed == judge.promises.sent >= BATCHES
    silent = [sentence for sentence in judge.wrong if "that were confirmed" in sentence]
    told = [sentence for sentence in judge.wrong if " has lost the last " in sentence]
    if not lies:
        assert judge.wrong[:3] == []
        assert len(judge.known) > FEWEST
    elif COUNT not in lies:
        assert told
        assert silent == [], "what is lost is told"
    else:
        assert silent
