"""The event loop when the broker stops: clients are notified, and the loop ends in seconds."""

from __future__ import annotations

import asyncio
import logging
import signal
from itertools import pairwise
from pathlib import Path

import pytest
from librt.strings import BytesWriter
from pamqp import commands

from penstock.connections.connection import LARGE_OCTETS_A_UNIT
from penstock.connections.connection_output import SHARE_OCTETS, OutputSource
from penstock.connections.log_line import LogLine
from penstock.core.large_bodies import Parts
from penstock.flow.timers import TimerHandler
from penstock.flow.work import UNITS_A_TURN, Chore
from penstock.logs.ids import LOG_CROWDED
from penstock.server.event_loop import EventLoop, stepped
from penstock.server.transport import Transport
from penstock.server.turn_loop import TurnLoop
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.brokers import GRACE, eventually, serving
from tests.support.driven_connection import make_driver
from tests.support.input_shares import declarations
from tests.support.raw_client import open_peer, peer_of, publish_frames
from tests.support.simulated_client import Client
from tests.support.simulated_loop import SimLoop, simulate
from tests.support.simulated_network import connect
from tests.support.simulated_world import World


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_closes_clients_with_320_and_the_broker_leaves_in_seconds(tmp_path: Path, number: int) -> None:
    with serving(tmp_path) as broker, open_peer(broker) as first, open_peer(broker) as second, peer_of(broker) as third:
        third.greet()
        broker.process.send_signal(number)
        for peer in (first, second):
            code, text = peer.refused(0)
            assert (code, text) == (320, "CONNECTION_FORCED - broker is shutting down")
        assert third.is_closed()
        assert broker.process.wait(GRACE) == 0


def test_client_that_does_not_answer_delays_the_end_by_seconds_only(tmp_path: Path) -> None:
    with serving(tmp_path) as broker, open_peer(broker) as deaf:
        assert broker.stop() == 0
        assert deaf.expect(0, commands.Connection.Close).reply_code == 320


def test_broker_leaves_in_seconds_though_publishers_are_held_and_consumers_deaf(tmp_path: Path) -> None:
    with serving(tmp_path) as broker, open_peer(broker) as held, open_peer(broker) as deaf:
        full = held.declare(**{"capacity-messages": 1, "hold-deadline": 0})
        deep = deaf.declare()
        held.say(publish_frames(1, "", full, bytes(100_000)) * 15)
        deaf.say(publish_frames(1, "", deep, bytes(100_000)) * 100)
        deaf.send(1, commands.Basic.Consume(queue=deep))
        eventually(lambda: len(broker.logged("CHN-1005")) == 1, "a publisher is blocked")
        assert broker.stop() == 0
        assert "Traceback" not in broker.log()


def test_wall_offset_changes_only_when_the_clock_was_set() -> None:
    assert stepped(1_000.0, 5.0, 1_005.000_003, 5.000_01) == 1_000.0, "two readings of clocks are never at once"
    assert stepped(1_000.0, 5.0, 1_035.0, 5.000_01) == 1_030.0
    assert stepped(1_000.0, 5.0, 995.0, 5.000_01) == 990.0
    assert stepped(1_000.0, 5.0, 1_005.3, 5.3) == 1_000.0, "a process that was held between the readings"


class Alarm(TimerHandler):
    """A timer that is due again and again."""

    calls = 0

    def on_deadline(self, now: float) -> float:
        self.calls += 1
        return now + 0.0005


class Busy(Chore):
    """Background work until an alarm has been due 100 times."""

    def __init__(self, alarm: Alarm) -> None:
        super().__init__()
        self.alarm = alarm
        self.turns = 0

    def has_more(self) -> bool:
        return self.alarm.calls < 100

    def work(self, most: int, now: float) -> int:
        self.turns += 1
        return 1


@pytest.mark.parametrize("make_loop", [TurnLoop, asyncio.SelectorEventLoop])
def test_turns_alternate_with_polls_of_the_sockets(make_loop: type[asyncio.AbstractEventLoop]) -> None:
    busy = Busy(Alarm())

    async def watch() -> list[int]:
        event_loop = EventLoop(make_driver(), asyncio.get_running_loop())
        broker = event_loop.driver.broker
        broker.turns.chores.add(busy)
        broker.turns.timers.add(busy.alarm, 0.0)
        event_loop.schedule()
        found = []
        while busy.has_more():
            before = busy.turns
            await asyncio.sleep(0)
            found.append(busy.turns - before)
        event_loop.stop()
        return found

    with asyncio.Runner(loop_factory=make_loop) as runner:
        assert max(runner.run(watch())) == 1


class Noting(Transport):
    """A transport that notes how many queues there are before each write."""

    notes: asyncio.Queue[int]

    def write(self, data: bytes) -> bool:
        self.notes.put_nowait(len(self.event_loop.driver.broker.vhosts["/"].queues))
        return super().write(data)


def test_answer_is_written_before_waiting_input_is_handled() -> None:
    async def ask(loop: SimLoop) -> None:
        world = World(loop)
        hog, victim, seen = world.client("hog"), Client(loop, "victim"), Noting(world.event_loop)
        seen.notes = asyncio.Queue()
        connect(loop, seen, victim, 2)
        await hog.open()
        await victim.open()
        seen.notes = asyncio.Queue()
        queues = world.core.vhosts["/"].queues
        world.event_loop.received(world.event_loop.transports[1], declarations(4000, "hog"))
        while len(queues) < 4000:
            world.event_loop.received(seen, method_frame(1, spec.BASIC_QOS))
            before = len(queues)
            assert await seen.notes.get() == before

    simulate(1, ask)


class Counting(logging.Handler):
    """A handler that counts the records."""

    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1


def test_thousand_log_lines_of_one_turn_are_handed_over_some_at_a_time() -> None:
    counting = Counting()

    async def tell(loop: SimLoop) -> None:
        world = World(loop)
        steps: list[int] = []
        before = counting.count

        def look() -> None:
            nonlocal before
            steps.append(counting.count - before)
            before = counting.count

        loop.after_pass = look
        for number in range(1000):
            world.driver.log(LogLine(f"line {number}", {"id": LOG_CROWDED}))
        world.event_loop.schedule()
        await world.settled()
        assert sum(steps) == 1000
        assert max(steps) == 100

    logging.getLogger("penstock").addHandler(counting)
    try:
        simulate(1, tell)
    finally:
        logging.getLogger("penstock").removeHandler(counting)


class Large(OutputSource):
    """A large message of eight parts."""

    def __init__(self) -> None:
        self.written = 0

    def write_some(self, out: BytesWriter, parts: Parts) -> bool:
        self.written += 1
        parts.append(bytes(SHARE_OCTETS))
        return self.written < 8

    def end(self) -> None:
        self.written = 8


def test_large_messages_of_many_are_written_in_parts_behind_the_answer_to_another() -> None:
    async def write(loop: SimLoop) -> None:
        world = World(loop)
        clients = [world.client(f"c{number}") for number in range(150)]
        for client in clients:
            await client.open()
        *readers, victim = list(world.driver.connections.values())
        sources = [Large() for _ in readers]
        for connection, source in zip(readers, sources, strict=True):
            connection.output.open_source(source)
            connection.request_flush()
        world.event_loop.received(world.event_loop.transports[victim.number], method_frame(1, spec.BASIC_QOS))
        steps: list[tuple[int, bool]] = []
        loop.after_pass = lambda: steps.append((sum([source.written for source in sources]), victim.output.touched))
        await world.settled()
        bound = UNITS_A_TURN * LARGE_OCTETS_A_UNIT // SHARE_OCTETS + 8
        assert not next(touched for written, touched in steps if written)
        assert steps[-1][0] == 8 * 149
        for (before, _), (after, _) in pairwise([(0, True), *steps]):
            assert after - before <= bound

    simulate(1, write)
