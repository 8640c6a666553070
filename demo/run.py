"""Leads the demo: starts everything, watches, ends everything, reports and checks."""

import argparse
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from demo import data, picture, report
from demo.children import ROOT, SIGNALS, Child, Children, Line
from demo.clients import CLIENTS
from demo.errors import DemoError
from demo.progress import Screen, Standing
from demo.watch import Story, Watch, story
from penstock.client.errors import ClientError
from penstock.logs import flowlog
from penstock.sync import connect

FLIGHTS, SUMMARIES = "flights", "summaries"
SETTINGS = "broker.toml"
"""The broker's settings file; by it a folder of the demo is known."""
FLOW_LOG = "flow-log"
PER_TRIGGER = 5_000
"""About half of what 4 MiB hold before the gate closes: producers refill one half while Spark works on the other."""
START_SECONDS = 30.0
SPARK_START_SECONDS = 180.0
STANDSTILL_SECONDS = 90.0
"""With nothing processed for so long, something is wrong; Spark's first batch alone may take half a minute."""


@dataclass
class Demo:
    """One run: what was asked for, and what is known so far."""

    flights: int
    capacity: int
    per_trigger: int
    output: Path
    screen: Screen
    children: Children
    columns: list[str] = field(default_factory=list)
    expected: data.Groups = field(default_factory=dict)
    publishers: dict[str, Child] = field(default_factory=dict)
    told: dict[str, dict[str, float]] = field(default_factory=dict)
    """The last words of each publisher."""
    batches: dict[int, tuple[float, int]] = field(default_factory=dict)
    summaries: int = 0
    """Lines that the consumer has printed."""
    finished: bool = False
    """Whether the pipeline has added everything up."""

    def run(self) -> report.Run:
        """Run everything from the broker's start to the pipeline's end. Raises `DemoError`, `ClientError`."""
        passwords = {name: secrets.token_hex(8) for name in ("guest", *CLIENTS)}
        passwords["guest"] = "guest"  # the default user, who may log in from this machine only
        address = self._start_broker(passwords)
        url = f"amqp://{address}"
        self._declare(url)
        consumer = self.children.start("consumer", "demo.consume", "--url", url, "--queue", SUMMARIES)
        self.screen.say(
            "Spark starts; meanwhile the flights are added up straight from the source, for the check at the end."
        )
        pipeline = self._start_pipeline(address)
        self._await_pipeline(pipeline)
        watch = Watch(url, FLIGHTS)
        try:
            begun = time.time()
            watch.start()
            self._start_publishers(address, passwords)
            self._follow(watch, consumer)
            ended = time.time()
            view = watch.finish()
        finally:
            watch.close()
        self.samples = list(watch.samples)
        self._finish(pipeline, consumer, url)
        found = report.totals_of(self.output / "delays")
        publishers = [
            report.Publisher(name, int(told["sent"]), int(told["confirmed"]), told["seconds"], told["cpu_seconds"])
            for name, told in ((name, self.told[name]) for name in CLIENTS)
        ]
        return report.Run(publishers, self.batches, begun, ended, view, self.summaries, self.expected, found)

    # Starting

    def _start_broker(self, passwords: dict[str, str]) -> str:
        """Start a broker on a free port; every publisher has a user of its own, so that the ledger tells them apart."""
        settings = self.output / SETTINGS
        settings.touch(mode=0o600)
        settings.write_text("[users]\n" + "".join(f'"{user}" = "{word}"\n' for user, word in passwords.items()))
        words = ["serve", "--listen", "127.0.0.1:0", "--memory", "--config", str(settings)]
        words += ["--flow-log", str(self.output / FLOW_LOG)]
        broker = self.children.start("broker", "penstock", *words)
        ready = self.children.line_from(broker, START_SECONDS)
        if not ready.startswith("ready amqp://"):
            raise DemoError(f"the broker said {ready!r} where 'ready' was due; see {broker.log}")
        return ready.split("amqp://")[1].split()[0]

    def _declare(self, url: str) -> None:
        with connect(url, protocol="amqp091") as connection:
            # Nobody is refused for waiting long: Spark's first batch takes as long as it takes.
            connection.declare_queue(FLIGHTS, durable=False, capacity_bytes=self.capacity, hold_deadline=0)
            connection.declare_queue(SUMMARIES, durable=False)

    def _start_pipeline(self, address: str) -> Child:
        self.columns, lines = data.read()
        words = ["--server", address, "--queue", FLIGHTS, "--summaries", SUMMARIES, "--columns", ",".join(self.columns)]
        words += ["--per-trigger", str(self.per_trigger), "--output", str(self.output)]
        pipeline = self.children.start("spark", "demo.pipeline", *words)
        self.expected = data.totals(self.columns, lines[: self.flights])
        return pipeline

    def _await_pipeline(self, pipeline: Child) -> None:
        if json.loads(self.children.line_from(pipeline, SPARK_START_SECONDS))["event"] != "running":
            raise DemoError(f"the pipeline did not start; see {pipeline.log}")

    def _start_publishers(self, address: str, passwords: dict[str, str]) -> None:
        for part, name in enumerate(CLIENTS):
            url = f"amqp://{name}:{passwords[name]}@{address}/%2F"
            words = ["--client", name, "--url", url, "--queue", FLIGHTS, "--flights", str(self.flights)]
            words += ["--part", str(part), "--parts", str(len(CLIENTS))]
            self.publishers[name] = self.children.start(name, "demo.publish", *words)

    # Running

    def _follow(self, watch: Watch, consumer: Child) -> None:
        """Show progress until every publisher has left and the queue is empty and settled."""
        standing = Standing(self.capacity, bar=self.screen.bar)
        moved = time.monotonic()
        left: float | None = None
        while True:
            line = self.children.next_line(0.1)
            if line is not None:
                self._note(line, consumer)
            if watch.failure is not None:
                raise watch.failure
            standing.sent = int(sum(told["sent"] for told in self.told.values()))
            processed = sum(rows for _, rows in self.batches.values())
            if processed != standing.processed:
                standing.processed, moved = processed, time.monotonic()
            standing.sample = watch.samples[-1] if watch.samples else None
            self.screen.show(standing)
            if left is None and all(child.code == 0 for child in self.publishers.values()):
                left = time.time()
            sample = standing.sample
            if left is not None and sample is not None and sample.at > left and not sample.messages:
                return
            if time.monotonic() - moved > STANDSTILL_SECONDS:
                raise DemoError(f"nothing was processed for {STANDSTILL_SECONDS:.0f} s; see {self.output}")

    def _note(self, line: Line, consumer: Child) -> None:
        if line.child is consumer:
            self.summaries += 1
            self.screen.say(f"  {line.text}")
        elif line.child.name in self.publishers:
            self.told[line.child.name] = json.loads(line.text)
        elif line.child.name == "spark":
            event = json.loads(line.text)
            if event["event"] == "batch":
                self.batches[event["batch"]] = (time.time(), event["rows"])
            elif event["event"] == "finished":
                self.finished = True

    # Ending

    def _finish(self, pipeline: Child, consumer: Child, url: str) -> None:
        """Let the pipeline add everything up, and the consumer print what is left."""
        pipeline.finish()
        deadline = time.monotonic() + STANDSTILL_SECONDS
        with connect(url, protocol="amqp091") as connection:
            summaries = connection.receiver(SUMMARIES, consumerWindowSize=0)
            while not (self.finished and summaries.count() == 0):
                line = self.children.next_line(0.1)
                if line is not None:
                    self._note(line, consumer)
                if time.monotonic() > deadline:
                    raise DemoError(f"the pipeline has not ended within {STANDSTILL_SECONDS:.0f} s; see {pipeline.log}")
        while (line := self.children.next_line(0.2)) is not None:
            self._note(line, consumer)

    def draw(self, run: report.Run, told: Story) -> Path:
        """Draw the picture, and return where it is."""
        path = self.output / "depth.png"
        view = run.view
        size = f"{self.capacity / 2**20:.3g} MiB"
        scene = picture.Scene(
            f"{run.processed:,} flights from {len(CLIENTS)} publishers through a queue of {size} into Spark",
            self.samples,
            told,
            run.begun,
            min((at for at, _ in run.batches.values()), default=run.ended),
            run.ended,
            view["capacity"]["bytes"],
            view["stop"]["bytes"],
            view["resume"]["bytes"],
        )
        picture.draw(scene, path)
        return path


def analysis_of(flow_log: Path, run: report.Run) -> str:
    """Return the command whose shares are those of the picture: both are of the same time."""
    begin, end = (
        datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "")
        for at in (run.begun, run.ended)
    )
    return f"penstock flow analyze {flow_log} --queue {FLIGHTS} --from {begin} --to {end}"


def find_java() -> None:
    """Set JAVA_HOME to a JDK that can run Spark. Raises `DemoError` with one sentence when there is none."""
    found = subprocess.run([ROOT / "scripts" / "jdk.sh", "--no-install"], capture_output=True, text=True, check=False)
    if found.returncode:
        raise DemoError(found.stderr.strip().rstrip("."))
    os.environ["JAVA_HOME"] = found.stdout.strip()


def _interrupted(number: int, _frame: FrameType | None) -> None:
    raise DemoError(f"ended by {signal.Signals(number).name}")


def lead(given: argparse.Namespace) -> bool:
    """Run the demo; returns whether everything agrees with the source. Raises `DemoError`."""
    for number in SIGNALS:
        signal.signal(number, _interrupted)
    find_java()
    begun = time.monotonic()
    output = Path(given.output).resolve()
    empty(output)
    screen = Screen()
    with Children(output) as children:
        demo = Demo(given.flights, given.capacity, given.per_trigger, output, screen, children)
        run = demo.run()
    told = story(flowlog.read(output / FLOW_LOG), FLIGHTS, run.ended)
    shown = demo.draw(run, told)
    wrong = report.complaints(run, told, given.flights)
    screen.say("\n" + "\n".join(report.figures(run)) + "\n")
    screen.say("\n".join(report.verdict(run, wrong)))
    screen.say(f"Parquet    {_near(output / 'delays')}")
    screen.say(f"Flow log   {_near(output / FLOW_LOG)}: for `penstock flow analyze`, `replay` and `plan`")
    screen.say(f"The run    {analysis_of(_near(output / FLOW_LOG), run)}")
    screen.say(f"Duration   {time.monotonic() - begun:.0f} s")
    screen.say(f"Picture    {_near(shown)}")
    return not wrong


def empty(output: Path) -> None:
    """Make the folder, without what an earlier run left there.

    Raises `DemoError` when it holds something else: a mistyped folder must not be lost.
    """
    if output.exists() and not (output / SETTINGS).exists() and any(output.iterdir()):
        raise DemoError(f"{output} holds something else than an earlier run of the demo; choose another --output")
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)


def _near(path: Path) -> Path:
    """Return a path as a person at the command line would write it."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def main() -> None:
    """Run the demo as a program: exit code 0 only when every total agrees and the gate has closed."""
    parser = argparse.ArgumentParser(
        prog="python -m demo", description="Real flights through a bounded queue into Spark."
    )
    parser.add_argument("--flights", type=int, default=data.FLIGHTS, help="how many are published (default: all)")
    parser.add_argument(
        "--capacity", type=int, default=4 * 2**20, help="capacity of the queue in bytes (default: 4 MiB)"
    )
    parser.add_argument("--per-trigger", type=int, default=PER_TRIGGER, help="the most flights in a batch of Spark")
    parser.add_argument("--output", default=str(ROOT / "build" / "demo"), help="folder for everything; emptied first")
    given = parser.parse_args()
    try:
        agreed = lead(given)
    except (DemoError, ClientError) as error:
        sys.exit(f"demo: {error}.")
    sys.exit(0 if agreed else 1)
