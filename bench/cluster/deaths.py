"""A shard that is killed: how long its clients wait, what those of other shards notice, and a crowd that comes back."""

import asyncio
import contextlib
import os
import resource
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from bench.brokers import ROOT
from bench.cluster.figures import Figure
from bench.cluster.nodes import SHARDED, VHOSTS, Client, Served, start
from bench.run import Effort
from penstock.store.node_folder import folder_of
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from penstock.wire.sasl import plain_response

ANSWER_MOST_MS, PAUSE_MOST_MS, CROWD_MOST_MS = 300.0, 100.0, 20.0
CROWD = 10_000
SPARE_FILES = 1_000
"""Open files that are left for all else."""
NODES = 3
"""Nodes for each repetition."""
APART_S = 0.001
QUEUE = "looked-at"
QUIET_S = 2.0
BACK_S = 120.0
"""Longest time for a crowd to be back."""
DIALS_AT_ONCE = 1_000
NICE = 10
"""Niceness of the crowd: on few cores its own work would delay the client that is measured."""


class Looker(threading.Thread):
    """A client that asks for a queue again and again, and notes each time; it does not come back."""

    def __init__(self, port: int, vhost: str) -> None:
        super().__init__(daemon=True)
        self._client = Client(port, vhost)
        self._client.open_channel(QUEUE)
        self._ends = threading.Event()
        self.times: list[tuple[float, float]] = []
        """Time of each answer, and the seconds that it took."""
        self.error = ""

    def run(self) -> None:
        """Look until the end."""
        try:
            while not self._ends.wait(APART_S):
                took = self._client.look(QUEUE)
                self.times.append((time.monotonic(), took))
        except OSError as error:
            self.error = str(error)

    def between(self, begun: float, ended: float) -> list[float]:
        """Return the milliseconds of the answers between two times."""
        return [took * 1e3 for at, took in list(self.times) if begun <= at <= ended]

    def stop(self) -> None:
        """End. Raises RuntimeError if the connection was lost."""
        self._ends.set()
        self.join()
        self._client.abort()
        if self.error:
            raise RuntimeError(f"a client of another shard was disturbed: {self.error}")


def pid_of(served: Served, shard: str) -> int:
    """Return the process of a shard: the one that has its store open."""
    store = str(folder_of(served.node.data, shard) / "messages.sqlite")
    for pid in served.broker.pids():
        with contextlib.suppress(OSError):
            if store in [os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir()]:
                return pid
    raise RuntimeError(f"no process has the store of shard {shard}")


def kills(form: str, scratch: Path, effort: Effort) -> Iterator[Figure]:
    """Kill an idle shard under a client that comes back at once, beside a client of another shard.

    Each node has one kill: a second death within a minute is followed by a pause.
    """
    answers, pauses = [], []
    for _ in range(NODES * effort.repetitions):
        with ExitStack() as stack:
            served = start(SHARDED, form, scratch, stack)
            other = Looker(served.port, VHOSTS[0])
            other.start()
            client = Client(served.port, VHOSTS[1])
            client.open_channel(QUEUE)
            pid = pid_of(served, "2")
            begun = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            answers.append(_answered_s(served.port, client) * 1e3)
            pauses.append(max(other.between(begun, time.monotonic()), default=0.0))
            other.stop()
    yield Figure.time("kill -9 of a shard to an answered client", answers, ANSWER_MOST_MS)
    yield Figure.time("longest answer to a client of another shard", pauses, PAUSE_MOST_MS)


def _answered_s(port: int, client: Client) -> float:
    """Return the seconds until a client of a killed shard has an answer again, on a new connection."""
    begun = time.monotonic()
    with contextlib.suppress(OSError):
        while True:
            client.look(QUEUE)
    client.abort()
    while True:
        try:
            again = Client(port, VHOSTS[1])
            again.open_channel(QUEUE)
        except OSError:
            continue
        took = time.monotonic() - begun
        again.abort()
        return took


def crowd(form: str, scratch: Path, effort: Effort, count: int = CROWD) -> Iterator[Figure]:
    """Kill a shard with very many clients, which all come back at once, beside a client of another shard."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count
    count = min(count, hard - SPARE_FILES)
    with ExitStack() as stack:
        served = start(SHARDED, form, scratch, stack)
        command = [sys.executable, "-m", "bench.cluster", "--crowd", str(served.port), "--clients", str(count)]
        clients = stack.enter_context(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True))
        stack.callback(clients.kill)
        assert clients.stdout is not None
        assert clients.stdout.readline() == "all\n"
        other = Looker(served.port, VHOSTS[0])
        other.start()
        quiet_from = time.monotonic()
        time.sleep(QUIET_S)
        quiet = p99(other.between(quiet_from, time.monotonic()))
        begun = time.monotonic()
        os.kill(pid_of(served, "2"), signal.SIGKILL)
        line = clients.stdout.readline().split()
        ended = time.monotonic()
        other.stop()
        if line[:1] != ["back"]:
            raise RuntimeError(f"the crowd did not come back: {' '.join(line) or 'it has ended'}")
    during = p99(other.between(begun, ended))
    few = "" if count == wanted else f", of {wanted:,} that the limit of open files ({hard:,}) does not permit"
    more = f"; p99 {quiet:.1f} ms before, all back in {ended - begun:.1f} s, {line[1]} attempts failed{few}"
    yield Figure.time(f"p99 of another client while {count:,} come back, over before", [max(during - quiet, 0.0)],
                      CROWD_MOST_MS, more)  # fmt: skip


def p99(milliseconds: list[float]) -> float:
    """Return the 99th percentile."""
    return statistics.quantiles(milliseconds, n=100)[98] if len(milliseconds) > 1 else max(milliseconds, default=0.0)


# The crowd, a process of its own


def be_crowd(port: int, count: int) -> int:
    """Be so many clients of the second virtual host: say `all` once they are in, and `back` when they are in again."""
    os.nice(NICE)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, count + SPARE_FILES)), hard))
    asyncio.run(_crowd(port, count))
    return 0


async def _crowd(port: int, count: int) -> None:
    gate = asyncio.Semaphore(DIALS_AT_ONCE)
    readers = await asyncio.gather(*(_dial(port, gate, []) for _ in range(count)))
    print("all", flush=True)
    failures: list[str] = []

    async def come_back(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> asyncio.StreamWriter:
        with contextlib.suppress(OSError):
            while await reader.read(4096):
                pass
        writer.close()
        return (await _dial(port, gate, failures))[1]

    async with asyncio.timeout(BACK_S):
        kept = await asyncio.gather(*(come_back(*each) for each in readers))
    print(f"back {len(failures):,}", flush=True)
    for writer in kept:
        writer.transport.abort()


async def _dial(
    port: int, gate: asyncio.Semaphore, failures: list[str]
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Log in, and try again at once for as long as that fails. At most some clients connect at the same time."""
    while True:
        try:
            async with gate:
                return await _log_in(port)
        except (OSError, asyncio.IncompleteReadError) as error:
            failures.append(str(error))
            await asyncio.sleep(0)


async def _log_in(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    start_ok = method_frame(0, spec.CONNECTION_START_OK, client_properties={}, mechanism="PLAIN",
                            response=plain_response("guest", "guest"), locale="en_US")  # fmt: skip
    try:
        writer.write(b"AMQP\x00\x00\x09\x01")
        await _frame(reader)
        writer.write(start_ok)
        await _frame(reader)
        tune_ok = method_frame(0, spec.CONNECTION_TUNE_OK, channel_max=0, frame_max=131072, heartbeat=0)
        writer.write(tune_ok + method_frame(0, spec.CONNECTION_OPEN, virtual_host=VHOSTS[1]))
        await _frame(reader)
    except BaseException:
        writer.transport.abort()
        raise
    return reader, writer


async def _frame(reader: asyncio.StreamReader) -> None:
    """Read a frame. Raises ConnectionError if it closes the connection."""
    head = await reader.readexactly(7)
    payload = await reader.readexactly(int.from_bytes(head[3:], "big") + 1)
    if int.from_bytes(payload[:4], "big") == spec.CONNECTION_CLOSE:
        raise ConnectionError(payload[7:-5].decode(errors="replace"))
