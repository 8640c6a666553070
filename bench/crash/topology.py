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
PAGED_PURGED, PAGED_MORTAL, PAGED_READ = "paged.purged", "paged.mortal", "paged.read"

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
"""Durable, with their arguments; in this order they are drained, so that what goes to the last one is seen there."""
PAGING: dict[str, dict[str, object]] = {
    "paged.0": {"overflow": "page", "capacity-bytes": 32 * 1024},
    "paged.1": {"overflow": "page", "capacity-messages": 20, **LETTERS},
    "paged.2": {
        "overflow": "page",
        "capacity-bytes": 8 * 1024,
        "page-limit-messages": 400,
        "page-full-policy": "reject",
    },
    "paged.3": {"overflow": "page", "capacity-messages": 4},
    PAGED_PURGED: {"overflow": "page", "capacity-messages": 10},
    PAGED_MORTAL: {"overflow": "page", "capacity-bytes": 16 * 1024},
}
"""Those that page, of Penstock only: little fits into memory, so nearly all that is published goes by the disk."""
OURS: dict[str, dict[str, object]] = {READ: {}, PAGED_READ: {"overflow": "page", "capacity-messages": 30}}
"""Of Penstock only: read by cursors."""
LOCAL_EXCHANGE, LOCAL_CONTAINER, LOCAL_LINK = "crash.local", "crash", "others"
OTHERS = "local.0"
"""Bound to `LOCAL_EXCHANGE` beside the subscription: it gets what the subscriber publishes, too."""
MOVED = {"move.0": "move.1", "move.2": "move.3"}
"""Queues whose messages jobs move, and their targets."""
AGAIN, AGAIN_DEAD = "again", "again.dead"
"""A queue whose messages are rejected, and that of these dead letters, from which jobs redrive them."""
TRANSFERS: dict[str, dict[str, object]] = {
    "move.0": {},
    "move.1": {"capacity-messages": 500, "hold-deadline": 1},
    "move.2": {"overflow": "page", "capacity-messages": 20},
    "move.3": {"overflow": "page", "capacity-messages": 20},
    AGAIN: {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": AGAIN_DEAD},
    AGAIN_DEAD: {},
}
"""Of Penstock only; drained in this order, so that a moved message is seen in its target."""
LATER, LATER_EXCHANGE = "later", "crash.later"
"""A queue whose messages an exchange delays, and in which failed deliveries wait for another try."""
DELAYED: dict[str, dict[str, object]] = {LATER: {"retry-delay": 20, "retry-delay-max": 200}}
"""Of Penstock only."""
GROUPED: dict[str, dict[str, object]] = {
    "group.0": {"group-by": "group"},
    "group.1": {"group-by": "group", "overflow": "page", "capacity-messages": 50},
}
"""Of Penstock only: the messages of a group are with one consumer at a time."""
SUBSCRIPTION = f"amq.subscription.{LOCAL_CONTAINER}.{LOCAL_LINK}"
"""Queue of the durable subscription with no-local, which a client of AMQP 1.0 has."""
LOCAL: dict[str, dict[str, object]] = {OTHERS: {}}
"""Of Penstock only."""
STREAMS: dict[str, dict[str, object]] = {
    "stream.kept": {"x-queue-type": "stream"},
    "stream.trimmed": {"x-queue-type": "stream", "x-max-length-bytes": 600_000},
}
"""Of Penstock only: a stream that keeps everything, and one whose oldest segments go."""
RETAINED = "retained"
RETAINING: dict[str, dict[str, object]] = {
    RETAINED: {"x-retain-time": "1D"},
    "retained.barriers": {"x-max-length": 100},
}
"""Of Penstock only: a queue that retains what it settles, and one for barriers of its workers."""
ARGUMENTS = QUEUES | PAGING | OURS | LOCAL | TRANSFERS | DELAYED | GROUPED | STREAMS | RETAINING
WORK = [name for name in QUEUES if name.startswith(("work", "fan", "topic"))]
"""Those that consumers take from."""
PAGED_WORK = [name for name in PAGING if name not in (PAGED_PURGED, PAGED_MORTAL)]
PAGED_FAN = "crash.paged"
PAGED_FANNED = ("paged.0", "paged.3", "work.0")
"""An exchange of Penstock only, before queues that page and one that does not."""
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
    if queue in MOVED:
        return Road("", queue, ((queue, MOVED[queue]),))
    if queue == AGAIN:
        return Road("", queue, ((queue, AGAIN_DEAD),))
    return Road("", queue, ((queue, DEAD) if "x-dead-letter-exchange" in ARGUMENTS.get(queue, {}) else (queue,),))


ROADS = [
    *(straight(name) for name in ("work.0", "work.1", "work.2")),
    Road("crash.fan", "", (("fan.0",), ("fan.1",))),
    Road("crash.topic", "a.b", (("topic.0",), ("topic.1",))),
    Road("crash.topic", "a.c.d", (("topic.0",),)),
    Road("crash.topic", "x.b", (("topic.1",),)),
]
PAGED_ROADS = [
    *(straight(name) for name in PAGED_WORK),
    Road(PAGED_FAN, "", tuple((name,) for name in PAGED_FANNED)),
]
DELAYS = Road(LATER_EXCHANGE, "", ((LATER,),))
LOCAL_OWN = Road(LOCAL_EXCHANGE, "", ((OTHERS,),))
"""What the subscriber publishes itself."""
LOCAL_OTHER = Road(LOCAL_EXCHANGE, "", ((OTHERS,), (SUBSCRIPTION,)))
"""What anybody else publishes."""
TRANSACTED = [road for road in PAGED_ROADS if ("paged.2",) not in road.places]
"""Those that refuse nobody: a refused commit ends its channel."""


def drained(ours: bool) -> list[str]:
    """Return the queues whose messages a consumer takes after a restart; the one for dead letters is the last."""
    return [*((*PAGING, *LOCAL, SUBSCRIPTION, *TRANSFERS, *DELAYED, *GROUPED) if ours else ()), *QUEUES]


def declare(link: Link, history: History, ours: bool) -> None:
    """Declare everything; what is there already must be as it was declared."""
    own = {PAGED_FAN: "fanout", LOCAL_EXCHANGE: "fanout"} if ours else {}
    for name, kind in (EXCHANGES | own).items():
        thing = history.change("exchange", name, there=True)
        link.ask(spec.EXCHANGE_DECLARE, exchange=name, type=kind, durable=True)
        thing.doubtful = False
    if ours:
        delaying: dict[str, object] = {"x-delayed-type": "fanout"}
        thing = history.change("exchange", LATER_EXCHANGE, there=True)
        link.ask(
            spec.EXCHANGE_DECLARE, exchange=LATER_EXCHANGE, type="x-delayed-message", durable=True, arguments=delaying
        )
        thing.doubtful = False
    for name, arguments in (ARGUMENTS if ours else QUEUES).items():
        thing = history.change("queue", name, there=True, arguments=arguments)
        link.ask(spec.QUEUE_DECLARE, queue=name, durable=True, arguments=arguments)
        thing.doubtful = False
    own_bindings = [(LOCAL_EXCHANGE, OTHERS, ""), (LATER_EXCHANGE, LATER, "")]
    bindings = [*[(PAGED_FAN, name, "") for name in PAGED_FANNED], *own_bindings] if ours else []
    for exchange, queue, key in BINDINGS + bindings:
        link.ask(spec.QUEUE_BIND, queue=queue, exchange=exchange, routing_key=key)
