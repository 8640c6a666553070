"""The driver's half of the source: one cursor on one or several brokers, attached, planned and settled.

Theory of operation. Spark calls ``commit(end of N)`` only while it constructs batch N+1, that is, only when
there is new data already. A bounded queue whose producers wait for room would never have new data: a deadlock.
But Spark asks for the latest offset *from* a start, and it does so only after the batch that ended there is in
its commit log. So the start of a question is the proof that everything up to it is durable, and `plan` settles it
before it asks the broker for more. ``commit`` is a second, idempotent way to the same end.

Nothing else settles: not stopping, not a time-out, not a new attachment. A planner is used by one thread of one
process, and connects when it is first asked something.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.client import ControlError
from pyspark_penstock.connections import BrokerLink
from pyspark_penstock.errors import CursorError
from pyspark_penstock.offsets import Positions, Range, advanced, ahead, filled, key_of, lost
from pyspark_penstock.options import SourceOptions
from pyspark_penstock.parsing import Address

MOST_ROWS = 100_000
"""Messages in a batch when neither an option nor a queue's capacity says less."""


@dataclass(frozen=True, slots=True)
class Caps:
    """The most that one batch may take; ``None`` is no cap."""

    rows: int | None
    octets: int | None

    def least(self, rows: int | None, octets: int | None) -> "Caps":
        """Return the stricter of both caps in each unit."""
        return Caps(_least(self.rows, rows), _least(self.octets, octets))

    def less(self, rows: int, octets: int) -> "Caps":
        """Return what is left after `rows` and `octets` were taken."""
        return Caps(self.rows and max(0, self.rows - rows), self.octets and max(0, self.octets - octets))

    @property
    def spent(self) -> bool:
        """Whether nothing more may be taken."""
        return self.rows == 0 or self.octets == 0


def _least(*numbers: int | None) -> int | None:
    given = [number for number in numbers if number is not None]
    return min(given) if given else None


class Planner:
    """Plans batches for one query; see the module's theory of operation."""

    def __init__(self, options: SourceOptions) -> None:
        """Remember the options; nothing is connected yet."""
        self._options = options
        self._places = {
            key_of(queue, str(server), len(options.access.servers)): (server, queue)
            for server in options.access.servers
            for queue in options.queues
        }
        self._links: dict[Address, BrokerLink] = {}
        self._tokens: dict[Address, int] = {}
        self._turn = 0
        self._warned: set[Range] = set()
        self.initial: Positions = {}
        self._standing: Positions = {}
        """Where the cursor stood when it was attached."""
        self._settled: Positions = {}
        self.tail: Positions = {}

    def place(self, key: str) -> tuple[Address, str, int]:
        """Return server, queue and fencing token of a key in an offset.

        Raises `CursorError` when the checkpoint names a queue that the query no longer subscribes to.
        """
        if key not in self._places:
            raise CursorError(f"a batch to be replayed reads '{key}', to which the query no longer subscribes")
        server, queue = self._places[key]
        return server, queue, self._tokens[server]

    def attach(self) -> None:
        """Attach the cursor on every server, once; a query that held it before is fenced off.

        Raises `CursorError` when a queue does not exist or has consumers of another kind.
        """
        if self._tokens:
            return
        options = self._options
        start = options.starting
        if isinstance(start, dict):
            start = {queue: start.get(queue, 0) for queue in options.queues}
        tokens: dict[Address, int] = {}
        for server in options.access.servers:
            self._links[server] = BrokerLink(options.access, server, options.retries)
            reply = self._ask(server, "cursor.attach", queues=list(options.queues), starting=start)
            tokens[server] = reply["token"]
            self.initial |= self._keyed(server, reply["initial"])
            self._standing |= self._keyed(server, reply["settled"])
            self.tail |= self._keyed(server, reply["tail"])
        self._tokens, self._settled = tokens, dict(self._standing)

    def checked(self, start: Positions, end: Positions | None = None) -> Positions:
        """Return `start` as far as the broker can still serve it, with every subscribed queue in it.

        Raises `CursorError` when the checkpoint asks for messages that the cursor has let go (unless
        failOnDataLoss is false), or is beyond the end of the queue, as is `end`, where a batch to be read ends.
        """
        self.attach()
        for gap in ahead(advanced(start, end or {}), self.tail):
            raise CursorError(
                f"the checkpoint has read '{gap.key}' up to {gap.hi}, but the queue ends at {gap.lo}: it is another "
                "queue, or its broker lost it; begin with a new checkpoint and a new cursor"
            )
        for gap in lost(start, self._standing):
            cursor = self._options.cursor
            text = f"messages {gap.lo + 1} to {gap.hi} of '{gap.key}' are gone: cursor '{cursor}' settled them"
            if self._options.fail_on_data_loss:
                raise CursorError(f"{text} for another checkpoint; failOnDataLoss=false goes on after them")
            if gap not in self._warned:
                self._warned.add(gap)
                print(f"penstock: {text}; going on after them", file=sys.stderr)
        return filled(start, self._standing)

    def plan(self, start: Positions, caps: Caps, upto: Positions | None) -> Positions:
        """Settle everything up to `start`, wait for messages after it, and return where the next batch ends.

        The answer is `start` when there is nothing new within ``fetchWait``; with `upto` (the target of a
        run that ends) nothing is waited for. With several servers the first question moves on by one each
        time, so that none of them is served last for ever.
        """
        begin = self.checked(start)
        servers = list(self._options.access.servers)
        self._turn = (self._turn + 1) % len(servers)
        order = servers[self._turn :] + servers[: self._turn]
        # One server is asked to wait; several are looked at first, and then waited for one after the other.
        waits = [0] if upto is not None or len(servers) > 1 else []
        if upto is None:
            waits.append(self._options.wait_ms)
        end = dict(begin)
        for wait_ms in waits:
            left = caps
            for server in order:
                reply = self._plan_one(server, start, end, left, wait_ms // len(servers), upto)
                end = advanced(end, self._keyed(server, reply["end"]))
                self.tail = advanced(self.tail, self._keyed(server, reply["tail"]))
                left = left.less(reply["rows"], reply["bytes"])
            if end != begin:
                break
        self._settled = advanced(self._settled, start)
        return advanced(start, end) if end != begin else dict(start)

    def _plan_one(
        self, server: Address, start: Positions, begin: Positions, caps: Caps, wait_ms: int, upto: Positions | None
    ) -> dict[str, Any]:
        here = self._here(server, begin)
        # A server whose share the others have taken still learns what is settled.
        target = here if caps.spent else self._here(server, advanced(begin, upto)) if upto is not None else None
        return self._ask(
            server,
            "cursor.plan",
            token=self._tokens[server],
            settle=self._here(server, start) or None,
            start=here,
            rows=caps.rows or None,
            bytes=caps.octets or None,
            wait_ms=0 if caps.spent else wait_ms,
            upto=target,
        )

    def settle(self, end: Positions) -> None:
        """Settle everything up to `end`; nothing is sent when that is done already."""
        self.attach()
        if all(self._settled.get(key, 0) >= end.get(key, 0) for key in self._places):
            return
        for server in self._options.access.servers:
            self._ask(server, "cursor.settle", token=self._tokens[server], end=self._here(server, end))
        self._settled = advanced(self._settled, end)

    def half_of_capacity(self) -> Caps:
        """Return half of what the subscribed queues hold: producers refill one half while Spark works on the other.

        Raises `CursorError` when a queue has been deleted.
        """
        self.attach()
        rows: list[int | None] = []
        octets: list[int | None] = []
        for server, queue in self._places.values():
            capacity = self._ask(server, "why", queue=queue)["capacity"]
            rows.append(capacity.get("messages"))
            octets.append(capacity.get("bytes"))
        half = Caps(_half(rows), _half(octets))
        return half.least(MOST_ROWS, None)

    def close(self) -> None:
        """Close the connections; nothing is settled, and the cursor keeps its place."""
        for link in self._links.values():
            link.close()
        self._links.clear()
        self._tokens.clear()

    def _ask(self, server: Address, operation: str, **fields: object) -> dict[str, Any]:
        if operation.startswith("cursor."):
            fields["cursor"] = self._options.cursor
        try:
            return self._links[server].ask(operation, fields)
        except ControlError as refusal:
            raise refused(refusal, self._options, server) from refusal

    def _here(self, server: Address, positions: Mapping[str, int]) -> dict[str, int]:
        return {
            queue: positions[key]
            for key, (place, queue) in self._places.items()
            if place == server and key in positions
        }

    def _keyed(self, server: Address, found: Mapping[str, int]) -> Positions:
        return {key_of(queue, str(server), len(self._options.access.servers)): found[queue] for queue in found}


def _half(capacities: list[int | None]) -> int | None:
    given = [capacity for capacity in capacities if capacity is not None]
    return max(1, sum(given) // 2) if given and len(given) == len(capacities) else None


def refused(refusal: ControlError, options: SourceOptions, server: Address) -> CursorError:
    """Return what a refusal of the broker means to a person who runs a query."""
    cursor = f"cursor '{options.cursor}' on {', '.join(options.queues)} at {server}"
    match refusal.name:
        case "fenced":
            text = f"{cursor} was attached by another query, which reads on; this one ends"
        case "not-found":
            text = f"{cursor} does not stand: a queue does not exist, or was deleted while the query ran"
        case _:
            text = f"{cursor} was refused"
    return CursorError(f"{text}: {refusal.text}")
