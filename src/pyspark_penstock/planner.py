"""Driver's half of the source: attaches, plans and settles one cursor on one or several brokers.

Theory of operation. Spark calls ``commit(end of N)`` only while it constructs batch N+1, that is, only when there is
new data already. A bounded queue whose producers wait for room would never have new data: a deadlock. But Spark
requests the latest offset *from* a start, and only after the batch that ended there is in its commit log. So the start
proves that everything up to it is durable, and `plan` settles up to it before it requests more from the broker.
``commit`` is a second, idempotent way to settle.

Nothing else settles: neither stopping, nor a time-out, nor a new attachment. A planner is used by one thread of one
process, and connects on first use. The servers, the subscription, the sizes of batches and the checks of a checkpoint
have modules of their own.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark_penstock.admission import Admission, Caps
from pyspark_penstock.attachment import Attachment, place_of
from pyspark_penstock.checkpoint import Checkpoint
from pyspark_penstock.connections import SAY_SECONDS, Waiting
from pyspark_penstock.errors import CursorError
from pyspark_penstock.logs import LOG
from pyspark_penstock.offsets import (
    Cut,
    Positions,
    Range,
    cut_of,
    from_spark,
    generations_of,
    query_of,
    rows_of_batch,
    split,
    to_spark,
)
from pyspark_penstock.options import SourceOptions
from pyspark_penstock.parsing import Address
from pyspark_penstock.parts import numbers_in_parts
from pyspark_penstock.schema import warn_of_left_out
from pyspark_penstock.servers import Servers, is_not_found
from pyspark_penstock.slices import Slice, packed, report_hole


@dataclass(slots=True)
class _Round:
    """Answers of all servers to one plan."""

    end: Positions
    messages: Positions
    """Number of messages by key."""
    paged: list[str]
    """Keys whose messages wait for the disk."""
    pressed: bool
    """Keys with messages that must be read from disk."""
    shares: dict[Address, "_Share"] = field(default_factory=dict)
    """True if a least size is ignored: producers are blocked, or the plan cannot grow."""


@dataclass(slots=True)
class _Share:
    """Parts of the batch by available server."""

    rows: int = 0
    octets: int = 0
    more: bool = False
    """True if the server used its whole part, so that it may get more."""
    most: Caps = field(default_factory=lambda: Caps(None, None))
    """Largest plan of the server, except that one message may be larger."""

    def rest(self) -> Caps:
        """Return how much more the server may plan."""
        return self.most.less(self.rows, self.octets)


@dataclass(frozen=True, slots=True)
class _Asking:
    """Parts of a plan's requests that are the same for all servers."""

    done: Positions
    """Durable positions, which are settled first."""
    cap: int | None
    """Most messages of the whole batch; None for no limit."""
    least: int
    """Messages that each server waits for."""
    wait_ms: int
    upto: Positions | None

    def at_once(self) -> "_Asking":
        """Return the same parts without waiting for messages."""
        return replace(self, least=0, wait_ms=0)


class Planner:
    """Planner of batches for one query; see the module's theory of operation."""

    def __init__(self, options: SourceOptions) -> None:
        """Store the options without connecting."""
        self._options = options
        self._servers = Servers(options)
        self._attachment = Attachment(options, self._servers)
        self._checkpoint = Checkpoint(options, self._attachment)
        self._admission = Admission(options)
        self._turn = 0
        self._reported_at = time.monotonic()
        self._shared_at = -SAY_SECONDS
        """Time of the last line about the shares of servers."""
        self._left_cursor = ""
        """Cursor with which the checkpoint was written, once it is known to be another cursor."""
        self._cut = Cut(options.min_partitions, options.max_records_per_partition)
        """Cut of the batches planned from now on."""
        self._warned_of_cut = False
        self._looks = not options.chose_columns
        """True until a message has a property that the default columns lack."""

    @property
    def tail(self) -> Positions:
        """Last known ends of the queues that the query subscribes to."""
        return {key: self._attachment.tail[key] for key in self._attachment.places}

    def beginning(self) -> Positions:
        """Return the start of the first batch: the cursor's start, the same at every call and after every restart.

        A new checkpoint with ``onNewCheckpoint=continue`` begins at the cursor's position.
        """
        attachment = self._attachment
        attachment.look()
        if any(each.get("new") for each in attachment.answers.values()):
            attachment.attach(lambda: self._checkpoint.begin(self._start(), attachment.generations))
        return self._start()

    def _start(self) -> Positions:
        found = self._attachment.standing if self._options.continues else self._attachment.initial
        return {key: found[key] for key in self._attachment.places}

    def offset(
        self, positions: Positions, rows: Positions | None = None, query: tuple[str, str] | None = None
    ) -> dict[str, Any]:
        """Return the offset that Spark stores; for the end of a batch with `query`, the query's id and cursor."""
        cut = None if query is None else self._cut
        return to_spark(positions, rows, self._attachment.generations, query, cut)

    def ends(self) -> Positions:
        """Return the present ends of the queues, up to which a run that ends reads."""
        self._attachment.look()
        return self.tail

    def _attach(self, offset: Mapping[str, Any], check: Callable[[], object], keys: Iterable[str] = ()) -> None:
        """Attach the cursor for the query that planned up to an offset."""
        attachment = self._attachment
        identity, former = query_of(offset)
        attachment.identity = identity or attachment.identity
        left = former if former not in ("", self._options.cursor, self._left_cursor) else ""

        def check_all() -> None:
            if left and self._options.on_left_cursor == "fail":
                attachment.leave_cursor(left)
            self._checkpoint.check_cursor(from_spark(offset), former)
            check()

        attachment.attach(check_all, keys)
        if left:
            self._left_cursor = left
            attachment.leave_cursor(left)

    def plan(self, offset: Mapping[str, Any], caps: Caps | None, upto: Positions | None) -> dict[str, Any] | None:
        """Settle everything up to `offset`, wait for messages after it, and return the end of the next batch.

        None when nothing arrives within ``fetchWait``, or too little for ``minOffsetsPerTrigger``. With `upto` (the
        target of a run that ends) it is None when nothing is left before it; messages on the disk are waited for. With
        several servers the first request goes to the next server each time, so that all are served. `caps` are limits
        besides the options' limits; None overrides the options.
        """
        attachment = self._attachment
        self._attach(offset, lambda: self._checkpoint.begin(from_spark(offset), generations_of(offset)))
        self._admission.on_return(attachment.limits)
        if upto is None:
            attachment.grow()
        try:
            return self._plan(offset, caps, upto)
        except CursorError as error:
            if self._options.subscription.pattern is None or not is_not_found(error):
                raise
        attachment.grow(at_once=True)  # A queue of the pattern was deleted.
        return self._plan(offset, caps, upto)

    def _plan(self, offset: Mapping[str, Any], caps: Caps | None, upto: Positions | None) -> dict[str, Any] | None:
        start, generations = from_spark(offset), generations_of(offset)
        begin = self._checkpoint.begin(start, generations)
        done = self._checkpoint.sound(start, generations)
        limits = {key: self._attachment.limits[key] for key in self._attachment.places}
        most = Caps(None, None) if caps is None else self._admission.caps(limits).least(caps.rows, caps.octets)
        least = 0 if upto is not None or caps is None else self._admission.least_rows(most)
        waiting = Waiting()
        while True:
            found = self._plan_once(done, begin, most, least, upto)
            if found.end != begin or upto is None:
                break
            if found.paged:
                self._report_paged(found.paged)
            elif not self._misses(begin, upto):
                break
            else:
                self._servers.wait_for_one(waiting)
        self._report_away(begin)
        self._report_shares(found, most)
        if found.end == begin or (sum(found.messages.values()) < least and not found.pressed):
            return None
        self._admission.on_batch()
        gaps = {key: count for key, count in found.messages.items() if count != found.end[key] - begin.get(key, 0)}
        return self.offset(found.end, gaps, (self._attachment.identity, self._options.cursor))

    def _misses(self, begin: Positions, upto: Positions) -> bool:
        """Return whether an unavailable server has messages before `upto`."""
        absences = self._servers.absences()
        places = self._attachment.places
        return any(place.server in absences and begin.get(key, 0) < upto.get(key, 0) for key, place in places.items())

    def _plan_once(self, done: Positions, begin: Positions, caps: Caps, least: int, upto: Positions | None) -> _Round:
        """Return the answers of all available servers.

        The servers share the limits by need. Each server gets an equal part of the rest, known least lag first, so that
        the others get its remainder. If more messages have arrived than was known, a second request uses the remaining
        limit.
        """
        order = self._order(begin)
        # With one server the request waits; several are polled first, and then waited for in turn.
        waits = [0] if upto is not None or len(order) > 1 else []
        waits.append(self._options.wait_ms)
        found = _Round(dict(begin), {}, [], False)
        for wait_ms in waits:
            left = caps
            found = _Round(dict(begin), {}, [], False)
            asking = _Asking(done, caps.rows, -(-least // len(order)), wait_ms // len(order), upto)
            for index, server in enumerate(order):
                left = self._plan_on(server, begin, left.part(len(order) - index), left, asking, found)
            if not found.shares:
                time.sleep(wait_ms / 1000)  # All servers are away, and none waits for messages.
            self._plan_rest(left, asking, found)
            enough = found.end != begin and (found.pressed or sum(found.messages.values()) >= least)
            if enough or (upto is not None and not found.paged):
                break
        return found

    def _order(self, begin: Positions) -> list[Address]:
        """Return the servers, least lag first; among equal ones another is first each time."""
        servers = list(self._attachment.tokens)
        self._turn = (self._turn + 1) % len(servers)
        if len(servers) == 1:
            return servers
        need = self._behind(begin)
        return sorted(servers[self._turn :] + servers[: self._turn], key=lambda server: need.get(server, 0))

    def _behind(self, positions: Positions) -> dict[Address, int]:
        """Return the number of sequences after these positions on each server, as far as known."""
        found: dict[Address, int] = {}
        for key, place in self._attachment.places.items():
            behind = max(0, self._attachment.tail.get(key, 0) - positions.get(key, 0))
            found[place.server] = found.get(place.server, 0) + behind
        return found

    def _plan_on(
        self, server: Address, begin: Positions, part: Caps, left: Caps, asking: _Asking, found: _Round
    ) -> Caps:
        """Plan a part of a batch on a server, and add its answers; return the rest of the batch."""
        for target in self._targets(server, begin, part, asking.upto):
            before = found.shares[server].rows if server in found.shares else 0
            reply = self._plan_one(server, begin, part, asking, before, target)
            if reply is None:
                break
            self._take(server, reply, found)
            rows, octets = int(reply["rows"]), int(reply["bytes"])
            share = found.shares.setdefault(server, _Share())
            share.rows, share.octets = share.rows + rows, share.octets + octets
            share.most = Caps(*reply.get("most", (None, None)))
            part, left = part.less(rows, octets), left.less(rows, octets)
            share.more = part.spent
            if part.spent:
                break
        return left

    def _plan_rest(self, left: Caps, asking: _Asking, found: _Round) -> None:
        """Plan the rest of a batch on servers that used their whole part."""
        more = [server for server, share in found.shares.items() if share.more and not share.rest().spent]
        for index, server in enumerate(more if len(found.shares) > 1 else ()):
            if not left.spent:
                rest = found.shares[server].rest()
                part = left.part(len(more) - index).least(rest.rows, rest.octets)
                left = self._plan_on(server, dict(found.end), part, left, asking.at_once(), found)

    def _take(self, server: Address, reply: dict[str, Any], found: _Round) -> None:
        """Add the answer of a server."""
        attachment = self._attachment
        for key, tail in attachment.keyed(server, reply["tail"]).items():
            attachment.tail[key] = max(tail, attachment.tail.get(key, 0))
        for key, end in attachment.keyed(server, reply["end"]).items():
            found.end[key] = max(end, found.end.get(key, 0))
            attachment.tail[key] = max(end, attachment.tail.get(key, 0))
        attachment.note_changes(server, int(reply["epoch"]))
        for key, count in attachment.keyed(server, reply["messages"]).items():
            found.messages[key] = found.messages.get(key, 0) + count
        found.paged += attachment.keyed(server, dict.fromkeys(reply["paged"], 0))
        found.pressed = found.pressed or bool(reply["pressed"])
        if warn_of_left_out(reply.get("left_out", {})):
            self._looks = False

    def _report_paged(self, paged: list[str]) -> None:
        if self._is_time_to_say():
            LOG.warning(
                "penstock: waiting for messages of %s that are on the disk; another cursor may have to settle first",
                ", ".join(sorted(paged)),
            )

    def _report_shares(self, found: _Round, most: Caps) -> None:
        """Log each server's share of a batch, from time to time."""
        rows = sum(share.rows for share in found.shares.values())
        now = time.monotonic()
        if len(self._servers.addresses) == 1 or not rows or now - self._shared_at < SAY_SECONDS:
            return
        self._shared_at = now
        behind = self._behind(found.end)
        shares = found.shares.items()
        parts = [f"{share.rows:,} of {server} ({behind.get(server, 0):,} left)" for server, share in shares]
        parts += [f"none of {server}, which is away" for server in self._servers.absences()]
        cap = "" if most.rows is None else f" of at most {most.rows:,}"
        text = "penstock: the batch of cursor '%s' has %s messages%s: %s"
        LOG.info(text, self._options.cursor, f"{rows:,}", cap, ", ".join(parts))

    def _report_away(self, begin: Positions) -> None:
        """Report the lag of unavailable servers."""
        absences = self._servers.absences()
        if not absences or not self._is_time_to_say():
            return
        for server, seconds in absences.items():
            keys = [key for key, place in self._attachment.places.items() if place.server == server]
            lag = sum(max(0, self._attachment.tail[key] - begin.get(key, 0)) for key in keys)
            LOG.warning(
                "penstock: %s has been away for %.0f s; %s there wait%s, at least %d messages behind",
                server,
                seconds,
                ", ".join(f"'{key}'" for key in sorted(keys)[:3]) or "its queues",
                "" if len(keys) != 1 else "s",
                lag,
            )

    def _is_time_to_say(self) -> bool:
        now = time.monotonic()
        if now - self._reported_at < SAY_SECONDS:
            return False
        self._reported_at = now
        return True

    def _targets(
        self, server: Address, begin: Positions, caps: Caps, upto: Positions | None
    ) -> Sequence[dict[str, int] | None]:
        """Return the ends up to which queues of a server are planned, in parts for one request each; None without an
        end.

        A server without a share of this batch plans no queue, and still gets the settled position.
        """
        if caps.spent:
            return [{}]
        if upto is None:
            return [None]
        open_ = {key: end for key, end in upto.items() if begin.get(key, 0) < end}
        return numbers_in_parts(self._attachment.here(server, open_))

    def _plan_one(
        self,
        server: Address,
        begin: Positions,
        caps: Caps,
        asking: _Asking,
        before: int,
        target: dict[str, int] | None,
    ) -> dict[str, Any] | None:
        """Return the answer of a server; None while it is away.

        The request has only positions that the server does not know. The server plans each queue from the position that
        it has settled.
        """
        attachment, done = self._attachment, asking.done
        servers = len(self._servers.addresses)
        shared = {"servers": servers, "cap": asking.cap, "before": before} if servers > 1 else {}
        settle = self._settle_but_last(server, attachment.unsettled(server, done))
        if settle is None:
            return None
        starts = {key: at for key, at in begin.items() if at != max(attachment.settled.get(key, 0), done.get(key, 0))}
        reply = self._servers.ask_present(
            server,
            "cursor.plan",
            token=attachment.tokens[server],
            identity=attachment.identity,
            settle=settle or None,
            start=attachment.here(server, starts) or None,
            rows=caps.rows or None,
            bytes=caps.octets or None,
            least=asking.least or None,
            left_out=self._looks,
            changes=True,
            wait_ms=0 if caps.spent else asking.wait_ms,
            upto=target,
            only=target is not None,
            **shared,
        )
        if reply is not None:
            attachment.on_settled(server, settle)
        return reply

    def _settle_but_last(self, server: Address, ends: dict[str, int]) -> dict[str, int] | None:
        """Settle queues of a server, except the last part, which is returned; None while the server is away."""
        *parts, last = numbers_in_parts(ends)
        for part in parts:
            if not self._settle_on(server, part):
                return None
        return last

    def _settle_on(self, server: Address, ends: dict[str, int]) -> bool:
        """Settle queues of a server. Returns False while the server is away."""
        token = self._attachment.tokens[server]
        if self._servers.ask_present(server, "cursor.settle", token=token, end=ends) is None:
            return False
        self._attachment.on_settled(server, ends)
        return True

    def slices(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[tuple[Slice, ...]]:
        """Return the slices of each task of a batch: the same for the same borders, also after a restart.

        Raises `CursorError` if needed messages are gone: settled or lost messages, or a deleted queue. With
        failOnDataLoss false they are left out.
        """
        before, last = from_spark(start), from_spark(end)

        def check() -> Positions:
            return self._checkpoint.begin(before, generations_of(start), last)

        self._attach(end, check, [key for key in last if last[key] > before.get(key, 0)])
        first = check()
        sound = self._checkpoint.sound(last, generations_of(end))
        for key in sorted(last):
            if last[key] > before.get(key, 0) and key not in sound and self._options.fail_on_data_loss:
                place_of(self._attachment, key)
        cut = self._cut_of(end)
        ranges = split(first, sound, cut.least, cut.most_rows)
        # If the broker has settled a part of the batch, which was reported, the number of messages is meaningless.
        rows = {
            key: count for key, count in rows_of_batch(end).items() if first.get(key) == before.get(key, first.get(key))
        }
        found = []
        for range_, count in zip(ranges, self._rows_between(ranges, rows), strict=True):
            place = place_of(self._attachment, range_.key)
            token = self._attachment.tokens[place.server]
            found.append(Slice(place.server, place.queue, token, range_.lo, range_.hi, count))
        if cut_of(end) is None:  # Versions that recorded no cut packed no slices.
            return [(slice_,) for slice_ in found]
        return packed(found, cut.least, cut.most_rows)

    def _cut_of(self, end: Mapping[str, Any]) -> Cut:
        """Return the cut of a batch: its plan's cut, regardless of the present options."""
        found = cut_of(end)
        if found is not None:
            return found
        if not self._warned_of_cut:
            self._warned_of_cut = True
            LOG.warning(
                "penstock: the checkpoint's last batch was planned by an earlier version of Penstock, which did not "
                "record its partitions: it is cut by minPartitions=%d and maxRecordsPerPartition=%d; a sink that has "
                "a part of the batch needs the values of the first run",
                self._cut.least,
                self._cut.most_rows,
            )
        return self._cut

    def _rows_between(self, ranges: list[Range], rows: Positions) -> list[int]:
        """Return the number of messages that each range must yield; `rows` has the totals of queues with gaps.

        Without gaps it is the number of sequences. Ranges of a queue with gaps are counted by the broker. Raises
        `CursorError` when the broker has fewer than were planned, unless failOnDataLoss is false.
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
        place = place_of(self._attachment, range_.key)
        if range_.key in self._attachment.left:
            return range_.hi - range_.lo
        reply = self._servers.ask(
            place.server,
            "cursor.plan",
            token=self._attachment.tokens[place.server],
            start={place.queue: range_.lo},
            upto={place.queue: range_.hi},
            only=True,
        )
        return int(reply["messages"][place.queue])

    def settle(self, offset: Mapping[str, Any]) -> None:
        """Settle everything up to an offset; no request is sent if it is settled already.

        An unavailable server that is waited for is settled with its next plan.
        """
        self._attach(offset, lambda: self._checkpoint.sound(from_spark(offset), generations_of(offset)))
        end = self._checkpoint.sound(from_spark(offset), generations_of(offset))
        for server in self._attachment.tokens:
            ends = self._attachment.unsettled(server, end)
            if ends:
                last = self._settle_but_last(server, ends)
                if last is not None:
                    self._settle_on(server, last)

    def close(self) -> None:
        """Close the connections; nothing is settled, and the cursor keeps its position."""
        self._servers.close()
        self._attachment.forget()
