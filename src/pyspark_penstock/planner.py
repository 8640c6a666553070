"""Driver's half of the source: attaches, plans and settles one cursor on one or several brokers.

Theory of operation. Spark calls ``commit(end of N)`` only while it constructs batch N+1, that is, only when there is
new data already. A bounded queue whose producers wait for room would never have new data: a deadlock. But Spark
requests the latest offset *from* a start, and only after the batch that ended there is in its commit log. So the start
proves that everything up to it is durable, and `plan` settles it before it requests more from the broker. ``commit`` is
a second, idempotent way to the same end.

Nothing else settles: not stopping, not a time-out, not a new attachment. A planner is used by one thread of one
process, and connects on first use.
"""

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.client import ControlError
from pyspark_penstock.connections import BrokerLink
from pyspark_penstock.errors import CursorError
from pyspark_penstock.offsets import Positions, Range, advanced, ahead, filled, key_of, lost
from pyspark_penstock.options import SourceOptions
from pyspark_penstock.parsing import Address

SAY_SECONDS = 10.0
"""Seconds between two log lines of a query that waits for the disk."""
MOVED = "moved by an operator"
"""Words of a broker's refusal of a request with the token from before a move."""
MOST_ROWS = 100_000
"""Most messages in a batch without a lower option or capacity."""


@dataclass(frozen=True, slots=True)
class Caps:
    """Limits of one batch; ``None`` is no limit."""

    rows: int | None
    octets: int | None

    def least(self, rows: int | None, octets: int | None) -> "Caps":
        """Return the lower limit of both in each unit."""
        return Caps(_least(self.rows, rows), _least(self.octets, octets))

    def less(self, rows: int, octets: int) -> "Caps":
        """Return the rest after `rows` and `octets` were taken."""
        return Caps(self.rows and max(0, self.rows - rows), self.octets and max(0, self.octets - octets))

    @property
    def spent(self) -> bool:
        """True if nothing more may be taken."""
        return self.rows == 0 or self.octets == 0


def _least(*numbers: int | None) -> int | None:
    given = [number for number in numbers if number is not None]
    return min(given) if given else None


class Planner:
    """Planner of batches for one query; see the module's theory of operation."""

    def __init__(self, options: SourceOptions) -> None:
        """Store the options; nothing is connected yet."""
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
        self._reported_at = time.monotonic()
        self.initial: Positions = {}
        self._standing: Positions = {}
        """Position of the cursor when it was attached."""
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
        """Attach the cursor on every server, once; an earlier query that held it is fenced off.

        Nothing is changed on any server if one of them would refuse. Raises `CursorError` when a queue does not exist
        or has consumers of another kind.
        """
        if self._tokens:
            return
        options = self._options
        start, queues = options.starting, list(options.queues)
        tokens: dict[Address, int] = {}
        servers = options.access.servers
        for server in servers:
            self._links[server] = BrokerLink(options.access, server, options.retries)
            if len(servers) > 1:
                self._request(server, "cursor.attach", queues=queues, starting=start, dry_run=True)
        for server in servers:
            reply = self._request(server, "cursor.attach", queues=queues, starting=start)
            tokens[server] = reply["token"]
            self.initial |= self._keyed(server, reply["initial"])
            self._standing |= self._keyed(server, reply["settled"])
            self.tail |= self._keyed(server, reply["tail"])
        self._tokens, self._settled = tokens, dict(self._standing)

    def checked(self, start: Positions, end: Positions | None = None) -> Positions:
        """Return `start` as far as the broker can still serve it, with every subscribed queue.

        Raises `CursorError` when the checkpoint needs messages that the cursor has settled (unless failOnDataLoss is
        false), or when it, or the batch's `end`, is beyond the end of the queue.
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
                raise CursorError(f"{text} for another checkpoint; failOnDataLoss=false continues after them")
            if gap not in self._warned:
                self._warned.add(gap)
                print(f"penstock: {text}; going on after them", file=sys.stderr)
        return filled(start, self._standing)

    def plan(self, start: Positions, caps: Caps, upto: Positions | None) -> tuple[Positions, Positions]:
        """Settle everything up to `start`, wait for messages after it, and return the end of the next batch.

        The second result has its number of messages in each queue whose sequences have gaps.

        The end is `start` when nothing arrives within ``fetchWait``. With `upto` (the target of a run that ends) it is
        `start` when nothing is left up to there; what is still on the disk is waited for. With several servers the
        first request goes to the next server each time, so that all are served.
        """
        begin = self.checked(start)
        while True:
            end, messages, paged = self._plan_once(start, begin, caps, upto)
            if end != begin or upto is None or not paged:
                break
            self._report_paged(paged)
        self._settled = advanced(self._settled, start)
        if end == begin:
            return dict(start), {}
        gaps = {key: count for key, count in messages.items() if count != end[key] - begin.get(key, 0)}
        return advanced(start, end), gaps

    def _plan_once(
        self, start: Positions, begin: Positions, caps: Caps, upto: Positions | None
    ) -> tuple[Positions, Positions, list[str]]:
        """Return the end of a batch, its number of messages by key, and the keys that wait for the disk."""
        servers = list(self._options.access.servers)
        self._turn = (self._turn + 1) % len(servers)
        order = servers[self._turn :] + servers[: self._turn]
        # With one server the request waits; several are polled first, and then waited for in turn.
        waits = [0] if upto is not None or len(servers) > 1 else []
        waits.append(self._options.wait_ms)
        end = dict(begin)
        messages: Positions = {}
        paged: list[str] = []
        for wait_ms in waits:
            left = caps
            paged = []
            for server in order:
                reply = self._plan_one(server, start, end, left, wait_ms // len(servers), upto)
                end = advanced(end, self._keyed(server, reply["end"]))
                self.tail = advanced(self.tail, self._keyed(server, reply["tail"]))
                messages |= self._keyed(server, reply["messages"])
                paged += self._keyed(server, dict.fromkeys(reply["paged"], 0))
                left = left.less(reply["rows"], reply["bytes"])
            if end != begin or (upto is not None and not paged):
                break
        return end, messages, paged

    def _report_paged(self, paged: list[str]) -> None:
        now = time.monotonic()
        if now - self._reported_at >= SAY_SECONDS:
            self._reported_at = now
            text = f"penstock: waiting for messages of {', '.join(sorted(paged))} that are on the disk"
            print(f"{text}; another cursor may have to settle first", file=sys.stderr)

    def _plan_one(
        self, server: Address, start: Positions, begin: Positions, caps: Caps, wait_ms: int, upto: Positions | None
    ) -> dict[str, Any]:
        here = self._here(server, begin)
        # A server without a share of this batch still learns the settled position.
        target = here if caps.spent else self._here(server, advanced(begin, upto)) if upto is not None else None
        return self._request(
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

    def rows_between(self, ranges: list[Range], rows: Positions) -> list[int]:
        """Return the number of messages that each range must yield; `rows` has those of queues with gaps in all.

        Without gaps that is the number of sequences. Ranges of a queue with gaps are counted by the broker. Raises
        `CursorError` when it has fewer than were planned, unless failOnDataLoss is false.
        """
        found = [range_.hi - range_.lo for range_ in ranges]
        for key, planned in rows.items():
            places = [index for index, range_ in enumerate(ranges) if range_.key == key]
            for index in places:
                found[index] = self._count(ranges[index])
            there = sum(found[index] for index in places)
            if places and there < planned:
                whole = Range(key, ranges[places[0]].lo, ranges[places[-1]].hi)
                report_hole(whole, planned, there, self._options.fail_on_data_loss)
        return found

    def _count(self, range_: Range) -> int:
        server, queue, token = self.place(range_.key)
        upto = dict.fromkeys(self._options.queues, 0) | {queue: range_.hi}
        reply = self._request(server, "cursor.plan", token=token, start={queue: range_.lo}, upto=upto)
        return int(reply["messages"][queue])

    def settle(self, end: Positions) -> None:
        """Settle everything up to `end`; nothing is sent if it is settled already."""
        self.attach()
        if all(self._settled.get(key, 0) >= end.get(key, 0) for key in self._places):
            return
        for server in self._options.access.servers:
            self._request(server, "cursor.settle", token=self._tokens[server], end=self._here(server, end))
        self._settled = advanced(self._settled, end)

    def half_of_capacity(self) -> Caps:
        """Return half of the capacity of the subscribed queues, so that producers refill the other half meanwhile.

        The number of messages that a paging queue has in memory blocks no producer, and so is no cap. Raises
        `CursorError` when a queue has been deleted.
        """
        self.attach()
        rows: list[int | None] = []
        octets: list[int | None] = []
        for server, queue in self._places.values():
            found = self._request(server, "why", queue=queue)
            capacity = found["capacity"]
            rows.append(None if found["paged"] else capacity.get("messages"))
            octets.append(capacity.get("bytes"))
        half = Caps(_half(rows), _half(octets))
        return half.least(MOST_ROWS, None)

    def close(self) -> None:
        """Close the connections; nothing is settled, and the cursor keeps its position."""
        for link in self._links.values():
            link.close()
        self._links.clear()
        self._tokens.clear()

    def _request(self, server: Address, operation: str, **fields: object) -> dict[str, Any]:
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


def report_hole(range_: Range, planned: int, found: int, fail: bool) -> None:
    """Report that a range yields fewer messages than were planned.

    Raises `CursorError`, or with `fail` false prints a warning.
    """
    text = (
        f"{planned - found} of the {planned} planned messages {range_.lo + 1} to {range_.hi} of '{range_.key}' are "
        "gone: transient messages do not survive a restart of their broker"
    )
    if fail:
        raise CursorError(f"{text}; failOnDataLoss=false continues without them")
    print(f"penstock: {text}; going on without them", file=sys.stderr, flush=True)


def refused(refusal: ControlError, options: SourceOptions, server: Address) -> CursorError:
    """Return the meaning of a broker's refusal for the user of a query."""
    cursor = f"cursor '{options.cursor}' on {', '.join(options.queues)} at {server}"
    match refusal.name:
        case "fenced" if MOVED in refusal.text:
            text = f"{cursor} cannot go on where it was; start the query again"
        case "fenced":
            text = f"{cursor} was attached by another query, which reads on; this one ends"
        case "not-found":
            text = f"{cursor} cannot go on: a queue does not exist, or was deleted while the query ran"
        case _:
            text = f"{cursor} was refused"
    return CursorError(f"{text}: {refusal.text}")
