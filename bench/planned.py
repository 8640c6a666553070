"""A live run with the settings of a plan, beside what the simulation said: `python -m bench.planned`.

Live clients follow the very arrivals and service times of the simulated ones, by the clock. The measures of the live
run come from the broker's flow log. The goal is that they agree within 10 %.
"""

import argparse
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pika  # type: ignore[import-untyped]

from bench import processes
from bench.brokers import COMPILED, INTERPRETED, PenstockNode
from penstock.client.errors import ConnectionClosed
from penstock.logs import flowlog
from penstock.sync import connect
from penstock_simulation.candidate import Candidate
from penstock_simulation.goals import Goal, parse, shown
from penstock_simulation.grid import Axes, capacities_for, choose
from penstock_simulation.outcome import Outcome
from penstock_simulation.recording import record
from penstock_simulation.runner import run_trials
from penstock_simulation.simulation import simulate
from penstock_simulation.workload import Source, Worker, Workload

QUEUE = "planned"
GOALS = "blocked<20%,depth<=64KiB"
ARRIVALS, SERVICES = 110.0, 120.0
MEASURES = ("closed", "blocked", "crossings", "depth", "settled", "refused")


def recommended(workload: Workload, goals: Sequence[Goal]) -> Candidate:
    """Return the settings that a plan recommends."""
    axes = Axes(capacity_bytes=capacities_for(goals), window=(10, 100), prefetch=(10, 50))
    trials = run_trials(workload, axes.candidates(), lambda done, of: None)
    return choose(trials, goals).trial.candidate


class Producer(threading.Thread):
    """A live producer: it publishes at the times of its arrivals, as far as its window admits."""

    def __init__(self, port: int, workload: Workload, index: int, window: int, start: threading.Event) -> None:
        super().__init__(daemon=True)
        connection = connect(f"amqp://127.0.0.1:{port}", protocol="amqp091", reconnect=False)
        self._publisher = connection.publisher(QUEUE, window=window, durable=False, flow_control_wait_failure=0)
        self._arrivals = workload.arrivals_of(index)
        self._start = start

    def run(self) -> None:
        self._start.wait()
        began = time.monotonic()
        for at, octets in self._arrivals:
            time.sleep(max(0.0, began + at - time.monotonic()))
            with suppress(ConnectionClosed):  # The broker ends first.
                self._publisher.publish(bytes(octets))


class Consumer(threading.Thread):
    """A live consumer: it works on one message at a time, for its service time."""

    def __init__(self, port: int, workload: Workload, prefetch: int | None, start: threading.Event) -> None:
        super().__init__(daemon=True)
        self._connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, heartbeat=0))
        self._channel = self._connection.channel()
        self._channel.basic_qos(prefetch_count=prefetch or 0)
        self._service = workload.service_of(0)
        self._start = start
        self.settled = 0
        self.stopping = False

    def run(self) -> None:
        self._start.wait()
        began = done = time.monotonic()
        was_busy = False
        for method, _, _ in self._channel.consume(QUEUE, inactivity_timeout=0.2):
            if self.stopping:
                return
            if method is None:
                continue
            now = time.monotonic()
            # A message that waited begins when the one before was due: what the machine loses is made up for.
            done = (done if was_busy else now) + self._service(now - began)
            time.sleep(max(0.0, done - now))
            self._channel.basic_ack(method.delivery_tag)
            self._connection.process_data_events(0)
            was_busy = self._channel.get_waiting_message_count() > 0
            self.settled += 1


def live(broker: str, workload: Workload, settings: Candidate, scratch: Path) -> dict[str, float]:
    """Run a broker and live clients for the time of a workload; return the measures of its flow log."""
    node = PenstockNode(broker, scratch)
    log = node.data / "flow-log"
    process = node.launch()
    try:
        port = node.port(process)
        url = f"amqp://guest:guest@127.0.0.1:{port}/"
        node.command(*settings.command(QUEUE).split()[1:], "--url", url).check_returncode()
        node.command("queues", "declare", QUEUE, "--transient", "--url", url).check_returncode()
        start = threading.Event()
        consumer = Consumer(port, workload, settings.prefetch, start)
        producers = [Producer(port, workload, index, settings.window, start) for index in range(len(workload.sources))]
        for each in (consumer, *producers):
            each.start()
        began = time.time()
        start.set()
        time.sleep(workload.seconds)
        settled = consumer.settled
        consumer.stopping = True
        consumer.join()
    finally:
        processes.stop(process)
    found = record(flowlog.read(log), QUEUE, began, began + workload.seconds).measures()
    return {**found, "settled": settled}


def main() -> None:
    """Plan, simulate, run, and compare."""
    parser = argparse.ArgumentParser(prog="bench.planned", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="length of the live run")
    parser.add_argument("--broker", choices=(COMPILED, INTERPRETED), default=COMPILED)
    parser.add_argument("--producers", type=int, default=3)
    parser.add_argument("--goal", default=GOALS)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    source = Source("poisson", 1000, (ARRIVALS / chosen.producers,))
    workload = Workload((source,) * chosen.producers, (Worker("exponential", (SERVICES,)),), chosen.seconds,
                        seed=chosen.seed)  # fmt: skip
    settings = recommended(workload, parse(chosen.goal))
    print(settings.command(QUEUE))
    print(settings.clients())
    said: Outcome = simulate(workload, settings)
    with tempfile.TemporaryDirectory() as scratch:
        seen = live(chosen.broker, workload, settings, Path(scratch))
    for measure in MEASURES:
        one, other = float(getattr(said, measure)), seen[measure]
        name = "crossings" if measure == "settled" else measure
        ratio = f"{other / one:.3f}" if one else "-"
        print(f"{measure:<12}{shown(name, one):>14}{shown(name, other):>14}{ratio:>10}")


if __name__ == "__main__":
    main()
