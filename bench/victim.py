"""What one client's work costs the others: a victim's latency, publish to deliver, beside clients that ask for much.

`python -m bench.victim` starts a broker, and for each experiment a client prepares what it is about; then a victim
publishes 100 messages a second to a queue of its own and consumes them, first alone and then beside the experiment.
The goal is that its 99th percentile is at most 20 ms above its quiet value, whatever anybody does. Experiments with
credit of AMQP 1.0 measure rates and shares instead (`bench.victim_credit`).
"""

import argparse
import contextlib
import itertools
import json
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pika  # type: ignore[import-untyped]

from bench import processes, victim10, victim_credit, victim_store
from bench.brokers import COMPILED, INTERPRETED, PenstockNode
from bench.victim_clients import LIMIT_S, Act, Client, Experiment, Place, bind, control, declare, exchange, publish
from penstock.logs.ids import LONG_ENTRY
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame

QUIET_S = 3.0
LEAST_S = 3.0
"""Seconds for which the victim is measured alone, and beside an experiment at least."""
RATE = 100
GOAL_MS = 20.0


def copies(place: Place) -> Act:
    """500 routing keys in CC through 2,000 patterns of #."""
    place.prepare(exchange("t", "topic"), declare("t"), *[bind("t", "t", "#", n=n) for n in range(2000)])
    client = place.client()
    message = publish("t", "k", b"x" * 100_000, headers={"CC": [f"key{n}" for n in range(500)]})
    return lambda: client.ask(message)


def words(place: Place) -> Act:
    """100 publishes of 112 words through 5,000 patterns."""
    patterns = [f"#.x{first}.#.x{second}.#.end" for first in range(71) for second in range(71)]
    place.prepare(exchange("w", "topic"), declare("w"), *[bind("w", "w", pattern) for pattern in patterns])
    client = place.client()
    keys = [".".join(f"x{n}" for n in range(50)) + f".{number}" for number in range(100)]
    return lambda: client.ask(b"".join(publish("w", key) for key in keys))


def rings(place: Place) -> Act:
    """publishes to 10,000 rings, and to 3,000."""
    for count in (10_000, 3_000):
        rings = [f"ring{count}.{number}" for number in range(count)]
        place.prepare(exchange(f"f{count}", "fanout"))
        for start in range(0, count, 2000):
            place.prepare(
                *[
                    declare(name, **{"x-max-length": 10}) + bind(name, f"f{count}")
                    for name in rings[start : start + 2000]
                ]
            )
    refused, client = place.client(), place.client()

    def act() -> None:
        refused.send(publish("f10000", "") * 20)
        client.send(publish("f3000", "") * 300)
        client.finish()

    return act


def chain(place: Place) -> Act:
    """publishes through 5,000 exchanges in a row."""
    names = [f"link{number}" for number in range(5000)]
    place.prepare(*[exchange(name, "fanout") for name in names])
    links = [
        method_frame(1, spec.EXCHANGE_BIND, destination=after, source=before, routing_key="", no_wait=True)
        for before, after in itertools.pairwise(names)
    ]
    place.prepare(*links, declare("end"), bind("end", names[-1]))
    client = place.client()
    return lambda: client.ask(b"".join(publish(names[0], f"k{n}") for n in range(500)))


def settings(place: Place) -> Act:
    """20 changes of the settings of 20,000 queues."""
    for start in range(0, 20_000, 4000):
        place.prepare(*[declare(f"set.{number}") for number in range(start, start + 4000)])
    client = place.client()
    requests = [
        control(
            "settings.set",
            json.dumps({"scope": "queue", "pattern": "set.#", "settings": {"hold-deadline": n}}).encode(),
        )
        for n in range(1, 21)
    ]
    return lambda: client.ask(b"".join(requests))


def large_request(place: Place) -> Act:
    """a control request of 120 MiB of JSON."""
    client = place.client()
    body = b"[" + b"[1,2,3,4,5,6,7,8]," * (120 * 1024 * 1024 // 18) + b"1]"
    return lambda: client.ask(control("why", body))


def exports(place: Place) -> Act:
    """2,500 exports of definitions in one read."""
    place.prepare(*[declare(f"exported{number}") for number in range(500)])
    client = place.client()
    return lambda: client.ask(control("definitions.export", b"{}") * 2500)


def gets(place: Place) -> Act:
    """HTTP gets of 1,000 messages with requeue, 8 at a time."""
    place.prepare(declare("got"), publish("", "got", b"x" * 1000) * 5000)
    body = json.dumps({"count": 1000, "ackmode": "ack_requeue_true", "encoding": "auto"}).encode()

    def ask() -> None:
        for _ in range(10):
            place.http("POST", "queues/%2F/got/get", body)

    return lambda: place.beside(8, ask)


def imports(place: Place) -> Act:
    """an import of 19,000 queues."""
    queues = [{"name": f"imported{number}", "vhost": "/", "durable": True} for number in range(19_000)]
    body = json.dumps({"queues": queues}).encode()
    return lambda: print(f"    status {place.http('POST', 'definitions', body)}")


def policies(place: Place) -> Act:
    """an import of 5,000 queues and 200 policies."""
    rules = [
        {
            "name": f"p{n}",
            "vhost": "/",
            "pattern": f"^imported{n}.*$",
            "priority": n,
            "definition": {"max-length": n + 1},
        }
        for n in range(200)
    ]
    queues = [{"name": f"imported{number}", "vhost": "/", "durable": True} for number in range(5000)]
    body = json.dumps({"policies": rules, "queues": queues}).encode()
    return lambda: print(f"    status {place.http('POST', 'definitions', body)}")


def bodies(place: Place) -> Act:
    """HTTP bodies of 15 MiB, 8 at a time."""
    body = b'{"properties": {}, "routing_key": "nobody", "payload_encoding": "string", "payload": "'
    body += b"x" * (15 * 1024 * 1024 - 200) + b'"}'
    nested = b'{"a": [' + b"[1,2,3]," * (15 * 1024 * 1024 // 9) + b"1]}"

    def ask() -> None:
        place.http("POST", "exchanges/%2F/amq.direct/publish", body)
        place.http("POST", "exchanges/%2F/amq.direct/publish", nested)

    return lambda: place.beside(8, ask)


def bindings(place: Place) -> Act:
    """50,000 bindings of one queue: made, published through, deleted."""
    place.prepare(exchange("b", "direct"), declare("b"))
    client = place.client()

    def act() -> None:
        for start in range(0, 50_000, 5000):
            client.send(b"".join(bind("b", "b", f"key{number}") for number in range(start, start + 5000)))
        client.send(b"".join(publish("b", f"key{number}") for number in range(0, 50_000, 10)))
        client.send(method_frame(1, spec.EXCHANGE_DELETE, exchange="b", no_wait=True))
        client.send(method_frame(1, spec.QUEUE_DELETE, queue="b", no_wait=True))
        client.finish()

    return act


def by_headers(place: Place) -> Act:
    """messages through 50,000 bindings of a headers exchange."""
    place.prepare(exchange("h", "headers"), declare("h"))
    for start in range(0, 50_000, 5000):
        place.prepare(
            *[bind("h", "h", "", **{"x-match": "all", "kind": "k", "n": n}) for n in range(start, start + 5000)]
        )
    client = place.client()
    messages = b"".join(publish("h", "", headers={"n": n}) for n in range(300))
    return lambda: client.ask(messages + publish("h", "", headers={"kind": "k", "n": 1}))


def signals(place: Place) -> Act:
    """1,000 SIGHUPs with 2,000 patterns."""
    place.config.write_text(
        "".join(f'[queue."p{number}.#"]\ncapacity-messages = {number + 10}\n' for number in range(2000))
    )

    def act() -> None:
        for _ in range(1000):
            place.process.send_signal(signal.SIGHUP)
            time.sleep(0.002)

    return act


def expiries(place: Place) -> Act:
    """200,000 messages that expire at once and are dead-lettered."""
    arguments = {"x-message-ttl": 4000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    place.prepare(
        declare("dead", **{"capacity-bytes": 1 << 30}), declare("dying", **{"capacity-bytes": 1 << 30}, **arguments)
    )
    place.prepare(publish("", "dying", b"x" * 20) * 200_000)
    return lambda: time.sleep(8)


def consumers(place: Place) -> Act:
    """200,000 consumers on 40 channels come, and their socket closes."""
    place.prepare(declare("many"), *[declare(f"many{number}") for number in range(20)])
    client = place.client()

    def act() -> None:
        for channel in range(102, 142):
            client.send(method_frame(channel, spec.CHANNEL_OPEN))
            for start in range(0, 5000, 1000):
                client.send(
                    b"".join(
                        method_frame(
                            channel, spec.BASIC_CONSUME,
                            queue=f"many{channel % 20}", consumer_tag=f"c{number}", no_wait=True,
                        )
                        for number in range(start, start + 1000)
                    )
                )  # fmt: skip
        client.finish()
        client.close()
        place.client().close()

    return act


def hog(place: Place) -> Act:
    """declarations, bindings and deletions as fast as they go, on 20 connections."""
    clients = [place.client() for _ in range(20)]

    def one(client: Client, number: int) -> None:
        names = [f"hog{number}.{each}" for each in range(2000)]
        client.send(b"".join(declare(name) + bind(name, "amq.topic", f"{name}.#") for name in names))
        client.send(b"".join(method_frame(1, spec.QUEUE_DELETE, queue=name, no_wait=True) for name in names))
        client.finish()

    def act() -> None:
        threads = [threading.Thread(target=one, args=(client, number)) for number, client in enumerate(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return act


def _waiting(place: Place, queue: str) -> list[Client]:
    """Return ten connections with a thousand channels each that hold a publish to a full queue."""
    place.prepare(declare(queue, **{"capacity-messages": 10, "hold-deadline": "60s"}), publish("", queue) * 10)
    clients = [place.client() for _ in range(10)]
    for client in clients:
        opened = range(10, 1010)
        client.send(b"".join(method_frame(channel, spec.CHANNEL_OPEN) for channel in opened))
        client.send(b"".join(method_frame(channel, spec.CONFIRM_SELECT, no_wait=True) for channel in opened))
        client.ask(b"".join(publish("", queue, channel=channel) for channel in opened))
    return clients


def waited_for(place: Place) -> Act:
    """the deletion of a queue at which 10,000 channels wait."""
    numbers = itertools.count()
    deleting = place.client()

    def act() -> None:
        queue = f"waited{next(numbers)}"
        clients = _waiting(place, queue)
        deleting.ask(method_frame(1, spec.QUEUE_DELETE, queue=queue, no_wait=True))
        for client in clients:
            client.finish()

    return act


def resets(place: Place) -> Act:
    """the end of ten connections with 10,000 channels that wait."""
    numbers = itertools.count()

    def act() -> None:
        for client in _waiting(place, f"reset{next(numbers)}"):
            client.close()

    return act


SIZE_MOST = 32_768
"""Largest size of a commit: copies of its publishes and settlements together (docs/inside/flow-control.md)."""
TX_SELECT = method_frame(1, spec.TX_SELECT)
TX_COMMIT = method_frame(1, spec.TX_COMMIT)
TX_ROLLBACK = method_frame(1, spec.TX_ROLLBACK)


def _fan(place: Place, name: str, count: int) -> None:
    """Declare a fanout exchange to so many queues of length 1."""
    names = [f"{name}{number}" for number in range(count)]
    place.prepare(
        exchange(name, "fanout"), *[declare(each, **{"x-max-length": 1}) + bind(each, name) for each in names]
    )


def commits(place: Place) -> Act:
    """the largest commits, again and again, of 4 connections: 100 copies of each publish."""
    _fan(place, "tx", 100)
    clients = [place.client() for _ in range(4)]
    for client in clients:
        client.ask(TX_SELECT)
    unit = publish("tx", "", b"") * ((SIZE_MOST - 600) // 100) + TX_COMMIT

    def one(client: Client) -> None:
        for _ in range(15):
            client.ask(unit)

    def act() -> None:
        threads = [threading.Thread(target=one, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return act


def large_commits(place: Place) -> Act:
    """commits that are too large: 20,000 publishes to 100 queues, on 4 connections."""
    _fan(place, "huge", 100)
    clients = [place.client() for _ in range(4)]
    unit = TX_SELECT + publish("huge", "", b"") * 20_000 + TX_COMMIT

    def act() -> None:
        for client in clients:
            client.send(unit)
        for client in clients:
            client.finish()

    return act


def rejecting_commits(place: Place) -> Act:
    """commits that reject 16,000 messages, each a dead letter to 50 queues."""
    _fan(place, "letters", 50)
    place.prepare(declare("rejected", **{"x-dead-letter-exchange": "letters"}))
    place.prepare(publish("", "rejected", b"") * 16_000)
    client = place.client()
    client.ask(TX_SELECT + method_frame(1, spec.BASIC_CONSUME, queue="rejected", consumer_tag="c", no_wait=True))
    time.sleep(1)
    reject = method_frame(1, spec.BASIC_NACK, delivery_tag=0, multiple=True, requeue=False)
    return lambda: client.ask(reject + TX_COMMIT)


LARGE: dict[str, object] = {"capacity-bytes": 1 << 31}
"""Arguments of a queue for a million messages."""


def tombstones(place: Place) -> Act:
    """900,000 messages, every third with an expiration, that expire together."""
    place.prepare(declare("tombs", **LARGE))
    batch = (publish("", "tombs") * 2 + publish("", "tombs", expiration="20000")) * 1000
    client, began = place.client(), time.monotonic()
    for _ in range(300):
        client.send(batch)
    client.finish()
    return lambda: time.sleep(max(began + 22 - time.monotonic(), 8))


def columns(place: Place) -> Act:
    """lists of 2,000 queues with 256 columns that do not exist, and with 6,000."""
    place.prepare(*[declare(f"column{number}") for number in range(2000)])
    for count in (256, 6000):
        names = ",".join(f"a.b{number:x}" for number in range(count))
        print(f"    {count} columns: status {place.http('GET', f'queues?page=1&columns={names}')}")
    names = ",".join(f"a.b{number:x}" for number in range(256))
    return lambda: print(f"    status {place.http('GET', f'queues?columns={names}')}")


def _unacknowledged(place: Place, queue: str, consumers: int, count: int) -> Client:
    """Return a client that has very many messages of a queue, shared by its consumers."""
    place.prepare(declare(queue, **LARGE))
    client = place.client()
    client.ask(
        b"".join(
            method_frame(1, spec.BASIC_CONSUME, queue=queue, consumer_tag=f"c{number}", no_wait=True)
            for number in range(consumers)
        )
    )
    batch = publish("", queue) * 5000
    for _ in range(count // 5000):
        place.prepare(batch)
    received = -1
    while received != client.received:
        received = client.received
        time.sleep(0.5)
    return client


def acknowledged(place: Place) -> Act:
    """a million deliveries in batches, and 300,000 one by one, that one acknowledgement settles."""
    few = _unacknowledged(place, "few", 1, 1_000_000)
    many = _unacknowledged(place, "many", 5000, 300_000)
    everything = method_frame(1, spec.BASIC_ACK, delivery_tag=0, multiple=True)

    def act() -> None:
        few.ask(everything)
        many.ask(everything)

    return act


def held_commits(place: Place) -> Act:
    """4,000 held commits behind one, 2,000 rollbacks, and their refusal."""
    numbers = itertools.count()

    def act() -> None:
        queue = f"held{next(numbers)}"
        place.prepare(declare(queue, **{"capacity-messages": 1, "hold-deadline": "2s"}), publish("", queue, b""))
        client = place.client()
        client.ask(TX_SELECT + publish("", queue, b"") + TX_COMMIT * 4000)
        client.send(TX_ROLLBACK * 2000)
        time.sleep(4)
        client.close()

    return act


def held_by_many(place: Place) -> Act:
    """the end of a connection that holds thousands of publishes to 3,000 queues."""
    names = [f"held{number}" for number in range(3000)]
    place.prepare(exchange("held", "fanout"), declare("full", **{"capacity-messages": 10}), bind("full", "held"))
    for start in range(0, 3000, 1000):
        place.prepare(*[declare(name) + bind(name, "held") for name in names[start : start + 1000]])
    client = place.client()
    client.send(publish("held", "") * 10)
    for number in range(4000):
        client.send(publish("held", f"k{number % 50}"))
    time.sleep(2)
    return client.close


def ahead(place: Place) -> Act:
    """a million tx.commit behind a held commit, on one connection."""
    place.prepare(declare("held", **{"capacity-messages": 1, "hold-deadline": "60s"}), publish("", "held") * 2)
    client = place.client()
    opened = method_frame(1000, spec.CHANNEL_OPEN) + method_frame(1000, spec.TX_SELECT)
    client.send(opened + publish("", "held", channel=1000))
    many = method_frame(1000, spec.TX_COMMIT) * 10_000

    def act() -> None:
        client.socket.settimeout(LEAST_S)
        with contextlib.suppress(TimeoutError):  # The broker reads no more of them.
            for _ in range(100):
                client.socket.sendall(many)
        client.close()

    return act


def secrets(place: Place) -> Act:
    """200,000 connection.update-secret on one connection."""
    client = place.client()
    one = method_frame(0, spec.CONNECTION_UPDATE_SECRET, new_secret=b"secret", reason="again")

    def act() -> None:
        for _ in range(200):
            client.send(one * 1_000)
            client.finish()

    return act


def strangers(place: Place) -> Act:
    """heads of 60 KiB, and pipelined requests for the console, on 16 HTTP sockets without a login."""
    head = (
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"x%d: y\r\n" % number for number in range(6000)) + b"\r\n"
    )
    pages = b"GET /static/parts/chart.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50

    def one() -> None:
        end = time.monotonic() + LEAST_S
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", place.http_port), 1) as client:
                client.sendall(head if int(time.monotonic() * 1000) % 2 else pages)
                client.recv(100_000)

    def act() -> None:
        threads = [threading.Thread(target=one) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return act


EXPERIMENTS: dict[str, Experiment] = {
    "copies": copies, "words": words, "rings": rings, "chain": chain, "settings": settings,
    "large-request": large_request, "exports": exports, "gets": gets, "imports": imports, "policies": policies,
    "bodies": bodies, "bindings": bindings, "headers": by_headers, "signals": signals, "expiries": expiries,
    "consumers": consumers, "hog": hog, "waited-for": waited_for, "resets": resets, "commits": commits,
    "large-commits": large_commits, "rejecting-commits": rejecting_commits,
    "held-commits": held_commits, "tombstones": tombstones, "columns": columns, "acknowledged": acknowledged,
    "held-by-many": held_by_many, "ahead": ahead, "secrets": secrets, "strangers": strangers,
    **victim10.EXPERIMENTS, **victim_store.EXPERIMENTS,
}  # fmt: skip


# The victim


def be_victim(port: int, is_confirmed: bool) -> None:
    """Publish and consume 100 messages a second until standard input closes; then print the latencies in ms.

    With `is_confirmed` the messages are persistent, and the latencies of their confirms count too.
    """
    parameters = pika.ConnectionParameters("127.0.0.1", port, heartbeat=0)
    latencies: list[tuple[float, float]] = []
    ready = threading.Event()
    over = threading.Event()

    def consume() -> None:
        channel = pika.BlockingConnection(parameters).channel()
        channel.queue_declare("victim", auto_delete=True, durable=is_confirmed)
        ready.set()
        for _, _, body in channel.consume("victim", auto_ack=True, inactivity_timeout=0.5):
            if body is not None:
                now = time.monotonic()
                latencies.append((float(body), (now - float(body)) * 1000))
            if over.is_set() and body is None:
                return

    reader = threading.Thread(target=consume, daemon=True)
    reader.start()
    ready.wait()
    channel = pika.BlockingConnection(parameters).channel()
    if is_confirmed:
        channel.confirm_delivery()

    def listen() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=listen, daemon=True).start()
    due = time.monotonic()
    while not over.is_set():
        due += 1 / RATE
        time.sleep(max(due - time.monotonic(), 0))
        sent = time.monotonic()
        channel.basic_publish("", "victim", repr(sent).encode(), pika.BasicProperties(delivery_mode=1 + is_confirmed))
        if is_confirmed:
            latencies.append((sent, (time.monotonic() - sent) * 1000))
    reader.join(LIMIT_S)
    print(json.dumps(latencies))


@dataclass
class Row:
    """How the victim fared: percentiles of its latency in ms, alone and beside the experiment."""

    name: str
    title: str
    quiet_p99: float
    p50: float
    p99: float
    highest: float
    seconds: float
    longest_turn: str


def percentile(values: list[float], part: float) -> float:
    """Return a percentile; 0 of nothing."""
    values = sorted(values)
    return values[min(int(len(values) * part), len(values) - 1)] if values else 0.0


def measure(name: str, experiment: Experiment, place: Place) -> Row:
    """Run one experiment beside a victim."""
    act = experiment(place)
    victim = subprocess.Popen(
        [
            sys.executable, "-m", "bench.victim", "--be-victim", str(place.port),
            *(["--confirmed"] if name in victim_store.EXPERIMENTS else []),
        ],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    time.sleep(QUIET_S + 0.5)
    began = time.monotonic()
    act()
    took = time.monotonic() - began
    time.sleep(max(LEAST_S - took, 0.5))
    ended = time.monotonic()
    said, _ = victim.communicate(timeout=LIMIT_S * 2)
    found: list[tuple[float, float]] = json.loads(said)
    quiet = [latency for at, latency in found if began - QUIET_S < at < began]
    beside = [latency for at, latency in found if began <= at <= ended]
    for close in place.closers:
        close()
    place.closers.clear()
    title = (experiment.__doc__ or name).strip()
    return Row(
        name, title, percentile(quiet, 0.99), percentile(beside, 0.5), percentile(beside, 0.99), max(beside), took,
        _longest_turn(place),
    )  # fmt: skip


def _longest_turn(place: Place) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "status", "--url", f"amqp://127.0.0.1:{place.port}"],
        capture_output=True, text=True, check=False, timeout=LIMIT_S,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("longest turn")]
    return lines[0].partition(": ")[2].partition(" ms")[0] if lines else "-"


@contextlib.contextmanager
def running(form: str) -> Iterator[tuple[Place, PenstockNode]]:
    """Run a broker for one experiment."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "penstock.toml")
        config.write_text("")
        http_port = processes.free_port()
        node = PenstockNode(form, Path(folder), http_port=http_port, config=config)
        process = node.launch()
        place: Place | None = None
        try:
            place = Place(node.port(process), http_port, process, config)
            yield place, node
        finally:
            for close in place.closers if place is not None else ():
                close()
            processes.stop(process)


def latencies(names: list[str], form: str) -> bool:
    """Run experiments beside a victim, with a line for each; return whether all meet the goal."""
    all_met = True
    print(f"{'experiment':<15} {'quiet p99':>10} {'p50':>8} {'p99':>9} {'max':>9} {'took':>7}  longest turn  PST-2013")
    for name in names:
        with running(form) as (place, node):
            row = measure(name, EXPERIMENTS[name], place)
            long_entries = node.log.read_text(errors="replace").count(LONG_ENTRY)
        met = row.p99 <= row.quiet_p99 + GOAL_MS
        print(
            f"{row.name:<15} {row.quiet_p99:7.1f} ms {row.p50:5.1f} ms {row.p99:6.1f} ms {row.highest:6.1f} ms "
            f"{row.seconds:5.1f} s  {row.longest_turn} ms  {long_entries}{'' if met else '  MISSED'}  {row.title}",
            flush=True,
        )
        all_met = all_met and met
    return all_met


def credit(names: list[str], form: str) -> bool:
    """Run experiments with reserved credit, with a line for each; return whether all meet the goal."""
    all_met = True
    for name in names:
        with running(form) as (place, _):
            found = victim_credit.run(place, name)
        print(f"{name:<20} {found.words}{'' if found.met else '  MISSED'}", flush=True)
        all_met = all_met and found.met
    return all_met


def main() -> int:
    """Run what was asked for; print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    every = [*EXPERIMENTS, *victim_credit.NAMES]
    parser.add_argument("--be-victim", type=int, metavar="PORT", help=argparse.SUPPRESS)
    parser.add_argument("--confirmed", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--interpreted", action="store_true", help="measure the interpreted form")
    parser.add_argument("--only", nargs="+", choices=every, default=every, help="these experiments")
    given = parser.parse_args()
    if given.be_victim:
        be_victim(given.be_victim, given.confirmed)
        return 0
    form = INTERPRETED if given.interpreted else COMPILED
    beside = [name for name in given.only if name in EXPERIMENTS]
    met = [latencies(beside, form)] if beside else []
    met.append(credit([name for name in given.only if name in victim_credit.NAMES], form))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
