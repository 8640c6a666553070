"""One round: a query reads a queue to its end, while its processes and its broker are killed."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pika  # type: ignore[import-untyped]

from bench.crash_spark.judge import Verdict, expected_of, judge, parquet_rows
from bench.crash_spark.query import COUNT, MAP
from bench.processes import free_port, tree

PIPELINES = (("parquet", MAP), ("dedup", MAP), ("transactional", MAP), ("transactional", COUNT))
"""Sink and kind of the query, in turn."""
DRIVER, WORKER, EXECUTOR, BROKER = "driver", "worker", "executor", "broker"
STARTS_MAX = 40
"""Starts of the driver of one round, at most: each death costs one, and so does each failed query."""
ROUND_SECONDS = 1_200.0
START_SECONDS = 300.0
CLOSING = 10_000_000
"""Number of the last message of an aggregation: its time closes the windows before it."""


class RoundFailed(Exception):
    """A round that did not come to its end."""


@dataclass(slots=True)
class Plan:
    """What chance has chosen for a round; the same seed gives the same plan."""

    number: int
    seed: int
    sink: str
    kind: str
    master: str
    messages: int
    batch: int
    kills: list[tuple[str, int, float]]
    """Victim, the number of the batch whose commit is waited for, and the seconds after that."""


@dataclass(slots=True)
class Result:
    """What came of a round."""

    number: int
    plan: dict[str, object]
    verdict: str
    exact: bool
    starts: int
    seconds: float
    killed: list[str] = field(default_factory=list)


def plan_of(number: int, seed: int, messages: int, cluster: bool) -> Plan:
    """Choose what happens in a round."""
    chance = random.Random(f"{seed} {number}")
    sink, kind = PIPELINES[(number - 1) % len(PIPELINES)]
    batch = chance.choice([messages // 10, messages // 6, messages // 4])
    batches = -(-messages // batch)
    victims = [DRIVER, WORKER, BROKER, EXECUTOR] if cluster else [DRIVER, WORKER, BROKER]
    kills = [
        (chance.choice(victims), chance.randrange(-1, batches - 1), chance.uniform(0.0, 1.5))
        for _ in range(chance.randint(1, 4))
    ]
    master = "local-cluster[1,2,1024]" if any(kill[0] == EXECUTOR for kill in kills) else "local[2,4]"
    return Plan(number, seed, sink, kind, master, messages, batch, sorted(kills, key=lambda kill: kill[1:]))


class Broker:
    """A broker with a store, which is killed and started again at the same address."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        with (self._folder / "broker.log").open("a") as log:
            command = [sys.executable, "-m", "penstock", "serve", "--listen", self.address]
            self._process = subprocess.Popen(
                [*command, "--data", str(self._folder / "data")], stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("ready"):
            raise RoundFailed(f"the broker did not start: {line!r}")

    def kill(self) -> None:
        """End it without warning."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(60)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    @contextmanager
    def channel(self) -> Iterator[pika.adapters.blocking_connection.BlockingChannel]:
        """Yield a channel of an ordinary client."""
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port, heartbeat=0))
        try:
            yield connection.channel()
        finally:
            connection.close()

    def fill(self, source: str, numbers: list[int]) -> None:
        """Declare a durable queue and publish numbers; they are in the store when this returns."""
        with self.channel() as channel:
            channel.queue_declare(source, durable=True)
            channel.tx_select()
            for number in numbers:
                channel.basic_publish("", source, str(number).encode(), pika.BasicProperties(delivery_mode=2))
            channel.tx_commit()

    def drain(self, target: str) -> list[str]:
        """Return all messages of a queue."""
        found: list[str] = []
        with self.channel() as channel:
            for method, _, body in channel.consume(target, inactivity_timeout=1.0, auto_ack=True):
                if method is None:
                    break
                found.append(body.decode())
        return found

    def depth(self, queue: str) -> int:
        """Return the messages of a queue."""
        with self.channel() as channel:
            return int(channel.queue_declare(queue, durable=True, passive=True).method.message_count)


class Query:
    """The driver of a query, in a process group of its own."""

    def __init__(self, folder: Path, given: dict[str, str]) -> None:
        self._folder = folder
        self._given = json.dumps(given)
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def start(self) -> None:
        """Start the driver."""
        self.starts += 1
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_DIRS": str(self._folder / "spark")}
        environment["SPARK_HOME"] = str(_spark_home(self._folder / "home"))
        # Executors run in folders of their own.
        paths = [str(Path(path).resolve()) for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
        environment["PYTHONPATH"] = os.pathsep.join([*paths, str(Path(__file__).resolve().parents[2])])
        with (self._folder / "driver.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench.crash_spark.query", self._given],
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    def ended(self) -> int | None:
        """Return the exit code of the driver; None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def kill(self, victim: str, chance: random.Random) -> str:
        """Kill the driver, a worker of Python or an executor; return what was killed, empty if there is none."""
        assert self._process is not None
        root = self._process.pid
        commands = {pid: _command(pid) for pid in tree(root)}
        if victim == DRIVER:
            # Its workers stay, and find out by themselves.
            jvm = [pid for pid, command in commands.items() if "SparkSubmit" in command]
            _kill([root, *jvm])
            return f"driver and {len(jvm)} JVM"
        if victim == EXECUTOR:
            found = [pid for pid, command in commands.items() if "CoarseGrainedExecutorBackend" in command]
        else:
            found = [pid for pid, command in commands.items() if "pyspark.daemon" in command]
        if not found:
            return ""
        _kill([chance.choice(found)])
        return f"{victim}, one of {len(found)}"

    def clear(self) -> None:
        """End what is left of the driver."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(60)


def _spark_home(folder: Path) -> Path:
    """Return a home of Spark of its own: a local cluster writes into it."""
    if not folder.exists():
        import pyspark

        folder.mkdir()
        for entry in Path(pyspark.__file__).parent.iterdir():
            if entry.name != "work":
                (folder / entry.name).symlink_to(entry)
    return folder


def run(plan: Plan, folder: Path) -> Result:
    """Run a round in a folder of its own. Raises `RoundFailed` if it does not end."""
    folder.mkdir(parents=True)
    began = time.monotonic()
    chance = random.Random(f"{plan.seed} {plan.number} victims")
    broker = Broker(folder)
    broker.start()
    numbers = list(range(plan.messages)) + ([CLOSING] if plan.kind == COUNT else [])
    broker.fill("source", numbers)
    broker.fill("target", [])
    given = {"address": broker.address, "source": "source", "target": "target", "folder": str(folder)}
    query = Query(folder, {**given, **{name: str(value) for name, value in asdict(plan).items()}})
    killed: list[str] = []
    try:
        query.start()
        for victim, batch, seconds in plan.kills:
            if _reach(query, folder, batch, began):
                time.sleep(seconds)
                killed.append(_strike(victim, query, broker, chance))
        while _reach(query, folder, None, began):
            time.sleep(0.1)
        verdict = _judge(plan, broker, folder)
    finally:
        query.clear()
        broker.kill()
    exact = verdict.is_exact()
    return Result(plan.number, asdict(plan), verdict.describe(), exact, query.starts, time.monotonic() - began, killed)


def _strike(victim: str, query: Query, broker: Broker, chance: random.Random) -> str:
    """Kill a victim."""
    if victim != BROKER:
        return query.kill(victim, chance) or f"no {victim} there"
    broker.kill()
    time.sleep(chance.choice([0.0, 0.3, 1.0]))
    broker.start()
    return "broker"


def _reach(query: Query, folder: Path, batch: int | None, began: float) -> bool:
    """Wait until a batch is in the commit log, -1 for the first plan; start a dead driver again.

    Returns False when the query has come to its end.
    """
    while True:
        if time.monotonic() > began + ROUND_SECONDS:
            raise RoundFailed(f"not at its end after {ROUND_SECONDS:.0f} s")
        code = query.ended()
        if code == 0:
            return False
        if code is not None:
            query.clear()
            if query.starts >= STARTS_MAX:
                raise RoundFailed(f"the driver was started {STARTS_MAX} times")
            query.start()
        log = folder / "checkpoint" / ("offsets" if batch == -1 else "commits")
        if batch is not None and (log / str(max(batch, 0))).exists():
            return True
        time.sleep(0.05)


def _judge(plan: Plan, broker: Broker, folder: Path) -> Verdict:
    found = parquet_rows(folder / "rows") if plan.sink == "parquet" else broker.drain("target")
    left = broker.depth("source")
    if left:
        raise RoundFailed(f"{left} messages are left in the source")
    return judge(expected_of(plan.kind, plan.messages), found)


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def _kill(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def remove(folder: Path) -> None:
    """Remove the folder of a round that was exact."""
    shutil.rmtree(folder, ignore_errors=True)
