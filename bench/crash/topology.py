"""The queues and exchanges of the test, and the roads into them."""

from typing import NamedTuple

from bench.crash.history import History
from bench.crash.wire import Link
from penstock.wire.amqp091 import spec

DEAD = "dead"
LETTERS: dict[str, object] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD}
TIMED_MS = 300
"""Milliseconds after which what is in the queue `timed` expires."""
TIMED, PURGED, MORTAL, TX_IN, TX_OUT, READ = "timed", "purged", "mortal", "tx.in", "tx.out", "read"

QUEUES: dict[str, dict[str, object]] = {
    "work.0": {},
    "work.1": {},
    "work.2": LETTERS,
    "fan.0": {},
    "fan.1": {},
    "topic.0": {},
    "topic.1": {},
    TIMED: {"x-message-ttl": TIMED_MS, **LETTERS},
    PURGED: {},
    MORTAL: {},
    TX_IN: {},
    TX_OUT: {},
    DEAD: {},
}
"""Durable, with their arguments; in this order they are drained, so that what goes to the last one is seen there.
`READ` is one more, of Penstock only, that is read by a cursor."""
WORK = [name for name in QUEUES if name.startswith(("work", "fan", "topic"))]
"""Those that consumers take from."""
EXCHANGES = {"crash.fan": "fanout", "crash.topic": "topic"}
BINDINGS = [
    ("crash.fan", "fan.0", ""),
    ("crash.fan", "fan.1", ""),
    ("crash.topic", "topic.0", "a.#"),
    ("crash.topic", "topic.1", "*.b"),
]


class Road(NamedTuple):
    """Where a message is published to, and the places that its copies have then."""

    exchange: str
    key: str
    places: tuple[tuple[str, ...], ...]


def straight(queue: str) -> Road:
    """Return the road of the default exchange into a queue."""
    return Road("", queue, ((queue, DEAD) if "x-dead-letter-exchange" in QUEUES.get(queue, {}) else (queue,),))


ROADS = [
    *(straight(name) for name in ("work.0", "work.1", "work.2")),
    Road("crash.fan", "", (("fan.0",), ("fan.1",))),
    Road("crash.topic", "a.b", (("topic.0",), ("topic.1",))),
    Road("crash.topic", "a.c.d", (("topic.0",),)),
    Road("crash.topic", "x.b", (("topic.1",),)),
]


def declare(link: Link, history: History, ours: bool) -> None:
    """Declare everything; what is there already must be as it was declared."""
    for name, kind in EXCHANGES.items():
        thing = history.change("exchange", name, there=True)
        link.ask(spec.EXCHANGE_DECLARE, exchange=name, type=kind, durable=True)
        thing.doubtful = False
    for name, arguments in (QUEUES | ({READ: {}} if ours else {})).items():
        thing = history.change("queue", name, there=True, arguments=arguments)
        link.ask(spec.QUEUE_DECLARE, queue=name, durable=True, arguments=arguments)
        thing.doubtful = False
    for exchange, queue, key in BINDINGS:
        link.ask(spec.QUEUE_BIND, queue=queue, exchange=exchange, routing_key=key)
