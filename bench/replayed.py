"""Recorded overloads of a live broker beside their replays: `python -m bench.replayed`.

Each overload is recorded with one capacity and replayed; then another capacity is predicted from that log, and run
live. The goal is that crossings and closed time agree within 20 %.
"""

import argparse
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pika  # type: ignore[import-untyped]

from bench import processes
from bench.brokers import COMPILED, INTERPRETED, PenstockNode
from bench.planned import QUEUE, Producer
from penstock.client.errors import ConnectionClosed
from penstock.logs import flowlog
from penstock.sync import connect
from penstock_simulation.recording import Recording, record
from penstock_simulation.replay import bound
from penstock_simulation.simulation import simulate
from penstock_simulation.workload import Source, Worker, Workload

OCTETS = 500
CAPACITY, OTHER = 500, 1000
"""Messages: of the capacity that is recorded, and of the one that is predicted."""
SERVICES = 400.0
"""Messages a second that the consumer takes."""
MEASURES = ("crossings", "closed")


@dataclass(frozen=True)
class Overload:
    """Who publishes and how the consumer settles."""

    name: str
    sources: tuple[Source, ...]
    """Arrivals of each producer; one without rates publishes as fast as it may."""
    window: int
    step: int = 1
    """Messages that the consumer acknowledges at once."""


ENDLESS = Source("steady", OCTETS)
OVERLOADS = (
    Overload("four producers as fast as they may, acknowledged one by one", (ENDLESS,) * 4, 50),
    Overload("the same, acknowledged by 50", (ENDLESS,) * 4, 50, 50),
    Overload("four producers of 110/s", (Source("poisson", OCTETS, (110.0,)),) * 4, 1000),
    Overload("three producers with bursts of 250", (Source("bursts", OCTETS, (110.0,), size=250),) * 3, 1000),
)


class Endless(threading.Thread):
    """A producer that publishes as fast as it may, until the broker ends."""

    def __init__(self, port: int, window: int) -> None:
        super().__init__(daemon=True)
        connection = connect(f"amqp://127.0.0.1:{port}", protocol="amqp091", reconnect=False)
        self._publisher = connection.publisher(QUEUE, window=window, durable=False, flow_control_wait_failure=0)

    def run(self) -> None:
        with suppress(ConnectionClosed):
            while True:
                self._publisher.publish(bytes(OCTETS))


class Consumer(threading.Thread):
    """A consumer that works on each message for the same time, and settles several at once."""

    def __init__(self, port: int, step: int) -> None:
        super().__init__(daemon=True)
        self._connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, heartbeat=0))
        self._channel = self._connection.channel()
        self._channel.basic_qos(prefetch_count=2 * step + 50)
        self._step = step
        self.stopping = False

    def run(self) -> None:
        due, waiting, last = time.monotonic(), 0, 0
        for method, _, _ in self._channel.consume(QUEUE, inactivity_timeout=0.2):
            if self.stopping:
                return
            if method is not None:
                # What the machine loses is made up for, as long as there is work.
                due = max(due, time.monotonic() - 0.1) + 1 / SERVICES
                time.sleep(max(0.0, due - time.monotonic()))
                waiting, last = waiting + 1, method.delivery_tag
            if waiting >= self._step or (waiting and self._channel.get_waiting_message_count() == 0):
                self._channel.basic_ack(last, multiple=True)
                self._connection.process_data_events(0)
                waiting = 0


def live(broker: str, overload: Overload, capacity: int, seconds: float, scratch: Path, seed: int) -> Recording:
    """Run a broker and live clients; return what its flow log says of their time."""
    node = PenstockNode(broker, scratch)
    process = node.launch()
    workload = Workload(overload.sources, (Worker("constant", (SERVICES,)),), seconds, seed=seed)
    try:
        port = node.port(process)
        url = f"amqp://guest:guest@127.0.0.1:{port}/"
        settings = (f"capacity-messages={capacity}", "hold-deadline=0")
        words = ["queues", "declare", QUEUE, "--transient", *settings, "--url", url]
        node.command(*words).check_returncode()
        consumer, start = Consumer(port, overload.step), threading.Event()
        producers = [
            Producer(port, workload, index, overload.window, start) if source.rates else Endless(port, overload.window)
            for index, source in enumerate(overload.sources)
        ]
        for each in (consumer, *producers):
            each.start()
        began = time.time()
        start.set()
        time.sleep(seconds)
        consumer.stopping = True
        consumer.join()
    finally:
        processes.stop(process)
    return record(flowlog.read(node.data / "flow-log"), QUEUE, began, began + seconds)


def shown(measures: dict[str, float]) -> str:
    """Return crossings and closed time as text."""
    return f"{measures['crossings']:.0f}, {measures['closed']:.1%}"


def main() -> None:
    """Record, replay, predict, run, and compare."""
    parser = argparse.ArgumentParser(prog="bench.replayed", description=__doc__)
    parser.add_argument("--seconds", type=float, default=40.0, help="length of each live run")
    parser.add_argument("--broker", choices=(COMPILED, INTERPRETED), default=COMPILED)
    parser.add_argument("--keep", type=Path, help="folder for data directories, which stay")
    parser.add_argument("--only", type=int, nargs="*", default=list(range(1, len(OVERLOADS) + 1)), help="numbers")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    print(f"| crossings and closed time | recorded | replayed | predicted for {OTHER:,} | live with {OTHER:,} |")
    print("|---|---|---|---|---|")
    for number, overload in enumerate(OVERLOADS, 1):
        if number not in chosen.only:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            folder = chosen.keep / str(number) if chosen.keep else Path(scratch)
            seen = []
            for capacity in (CAPACITY, OTHER):
                (folder / str(capacity)).mkdir(parents=True)
                seen.append(
                    live(chosen.broker, overload, capacity, chosen.seconds, folder / str(capacity), chosen.seed)
                )
        recorded, other = seen
        workload, settings = recorded.workload(), recorded.candidate()
        said = [
            {name: float(getattr(simulate(workload, each), name)) for name in MEASURES}
            for each in (settings, settings.with_changes(capacity_messages=OTHER))
        ]
        mark = " (bound)" if bound(recorded.blocked_share) else ""
        cells = (shown(recorded.measures()), shown(said[0]), shown(said[1]) + mark, shown(other.measures()))
        print(f"| {overload.name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
