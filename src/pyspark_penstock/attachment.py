"""Attachment of one cursor to its queues on all servers, as the subscription grows and shrinks.

A queue that is new to the cursor begins at the start in the options. A queue that the subscription no longer has is
*left*: its position stays with the cursor, and its messages in the queue, until they are released. The queues of a
pattern are looked up again when a broker's queues have changed; the cursor's token stays the same then, so that no
other query is fenced.
"""

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark_penstock.connections import Waiting
from pyspark_penstock.errors import CursorError
from pyspark_penstock.logs import LOG
from pyspark_penstock.offsets import Positions, key_of
from pyspark_penstock.options import SourceOptions
from pyspark_penstock.parsing import Address, Start, shown_instant
from pyspark_penstock.parts import parts_of
from pyspark_penstock.servers import JOINED, Servers, is_not_found

LIST_SECONDS = 2.0
"""Least seconds between two look-ups of the queues of a pattern on one server."""
RETRY_SECONDS = 60.0
"""Seconds after which refused queues of a pattern are tried again."""
ATTEMPTS = 3
"""Attempts to attach at a time: messages that a look-up found may have left the queue before the attach."""
WARNED_MAX = 1_000
"""Most warnings that are remembered, so that none is logged twice."""
SHOWN = 3
"""Most names in a sentence."""
LIFE_SECONDS = 2.0
"""Seconds in which the connection of a killed driver closes, once no plan of it waits any more."""


@dataclass(frozen=True, slots=True)
class Place:
    """Queue on a server."""

    server: Address
    queue: str


class Attachment:
    """Queues of a query with their keys in offsets, and the brokers' answers about them."""

    def __init__(self, options: SourceOptions, servers: Servers) -> None:
        """Store the options without a request."""
        self._options, self._servers = options, servers
        self.tokens: dict[Address, int] = {}
        """Fencing tokens of the servers where the cursor is attached."""
        self.identity = secrets.token_hex(8)
        """Id of the query: the id in its checkpoint, if there is one."""
        self.answers: dict[Address, dict[str, Any]] = {}
        """Answers of servers to dry runs of an attach."""
        self.places: dict[str, Place] = {}
        """Queues of the subscription, by key."""
        self.left: dict[str, Place] = {}
        """Queues that the cursor has left, and on which it keeps a position."""
        self.initial: Positions = {}
        self.standing: Positions = {}
        """Positions of the cursor at its last attach, on left queues too."""
        self.settled: Positions = {}
        """Positions of the cursor that the brokers have acknowledged."""
        self.tail: Positions = {}
        self.generations: Positions = {}
        """Generations of positions, by key, unless they are 0."""
        self.limits: dict[str, dict[str, Any]] = {}
        """Capacity and hold deadline of each queue, by key."""
        self._most: dict[Address, int] = {}
        """Most positions of a cursor on each server."""
        self._refused: dict[Address, dict[str, str]] = {}
        self._listed: dict[Address, tuple[int, float]] = {}
        """Count of changes at the last look-up of the pattern's queues, and the time of the look-up."""
        self._changed: dict[Address, int] = {}
        """Last reported count of changes."""
        self._warned: set[str] = set()

    def attach(self, check: Callable[[], object] = lambda: None, keys: Iterable[str] = ()) -> None:
        """Attach the cursor on every server, once; an earlier query that held the cursor is fenced.

        `check` is called before: it gets the result of a dry run, and raises if the query cannot continue. If `check`
        raises, or a server would refuse, no server is changed. With ``onServerLoss=wait`` a server that is away is
        attached when it is back; at least one server must be there, and the servers of the queues with these `keys`.
        Raises `CursorError` when a queue does not exist or cannot be read by a cursor, or while another query reads.
        """
        ends = tuple(keys)
        waiting = Waiting()
        while missing := self.missing():
            there = self._ask_all(missing)
            if there:
                self._wait_for_reader(there)
                check()
                for server in there:
                    self._attach_on(server)
            needed = [server for server in self.missing() if any(key.endswith(f"@{server}") for key in ends)]
            if self.tokens and not needed:
                break
            self._servers.wait_for_one(waiting)

    def look(self) -> None:
        """Make a dry run of an attach; at least one server must answer."""
        waiting = Waiting()
        while not self.tokens and not self._ask_all(self.missing()):
            self._servers.wait_for_one(waiting)

    def leave_cursor(self, former: str) -> None:
        """Report the positions of the cursor with which the checkpoint was written, unless a reader uses that cursor.

        Raises `CursorError` with ``onLeftCursor=fail``; with ``release`` that cursor is deleted.
        """
        for server in list(self.answers):
            try:
                found = self._servers.ask_present(server, "cursor.show", cursor=former)
                if found is None or (found["reader"] is not None and found["reader"]["open"]):
                    continue
                pinned = {each["queue"]: each["tail"] - each["settled"] for each in found["queues"]}
                text = f"the checkpoint was written with cursor '{former}', which no query reads any more at {server}"
                rest = ", ".join(f"{count} messages of '{queue}'" for queue, count in pinned.items() if count)
                text = f"{text} and which keeps {rest or 'nothing yet'}"
                if self._options.on_left_cursor == "fail":
                    raise CursorError(f"{text}; give that cursor, or set onLeftCursor=warn or release")
                if self._options.on_left_cursor == "release":
                    self._servers.ask_present(server, "cursor.delete", cursor=former)
                    LOG.warning("penstock: %s; it is deleted (onLeftCursor=release)", text)
                else:
                    self._warn(
                        f"{text}; producers may wait for it: set onLeftCursor=release, or `penstock cursors delete "
                        f"{former}`"
                    )
            except CursorError as error:
                if not is_not_found(error):
                    raise

    def has_cursor(self, server: Address, name: str) -> bool:
        """Return whether an available server has a cursor of this name. Raises `CursorError` if the server refuses."""
        try:
            return self._servers.ask_present(server, "cursor.show", cursor=name) is not None
        except CursorError as error:
            if is_not_found(error):
                return False
            raise

    def missing(self) -> list[Address]:
        """Return the servers where the cursor is not attached yet."""
        return [server for server in self._servers.addresses if server not in self.tokens]

    def _ask_all(self, servers: list[Address]) -> list[Address]:
        """Make a dry run of an attach on servers; return the available ones."""
        for server in servers:
            self._attach_on(server, dry_run=True)
        return [server for server in servers if server in self.answers]

    def _wait_for_reader(self, servers: list[Address]) -> None:
        """Wait for the reader of the cursor, if it is a killed driver: its connection closes.

        Raises `CursorError` if the reader is alive: it plans again, or stays.
        """
        for server in servers:
            first = held = self.answers[server]["held"]
            until = time.monotonic() + LIFE_SECONDS
            while held is not None:
                if held["plans"] != first["plans"] or time.monotonic() >= until:
                    raise CursorError(f"{self._options.subject} at {server} was refused: {held['text']} ({JOINED})")
                time.sleep(0.05)
                self._attach_on(server, dry_run=True)
                held = self.answers[server]["held"] if server in self.answers else None
                if held is not None and held["polling"]:
                    until = time.monotonic() + LIFE_SECONDS

    def grow(self, at_once: bool = False) -> None:
        """Let new queues of the pattern join, and deleted queues leave.

        A server is asked only after a change of its queues, or with `at_once`.
        """
        if self._options.subscription.pattern is None:
            return
        for server in self.tokens:
            epoch, at = self._listed[server]
            passed = time.monotonic() - at
            changed = self._changed.get(server, epoch) != epoch and passed >= LIST_SECONDS
            if at_once or changed or (self._refused[server] and passed >= RETRY_SECONDS):
                self._attach_on(server, holder=True, at_once=at_once)

    def note_changes(self, server: Address, epoch: int) -> None:
        """Record the count of changes of a server's queues, which each plan has."""
        self._changed[server] = epoch

    def here(self, server: Address, positions: Mapping[str, int], left: bool = False) -> dict[str, int]:
        """Return positions on a server by queue: of the subscription, and with `left` those of left queues too."""
        places = {**self.places, **self.left} if left else self.places
        return {
            place.queue: positions[key] for key, place in places.items() if place.server == server and key in positions
        }

    def keyed(self, server: Address, found: Mapping[str, int]) -> Positions:
        """Return numbers by key, from numbers by queue of a server."""
        return {self.key(server, queue): found[queue] for queue in found}

    def key(self, server: Address, queue: str) -> str:
        """Return the key of a queue in offsets."""
        return key_of(queue, str(server), len(self._servers.addresses))

    def unsettled(self, server: Address, done: Mapping[str, int]) -> dict[str, int]:
        """Return the positions, by queue, that a server does not know to be settled yet."""
        settled = self.settled
        return {
            place.queue: done[key]
            for places in (self.places, self.left)
            for key, place in places.items()
            if place.server == server and done.get(key, -1) > settled.get(key, -1)
        }

    def on_settled(self, server: Address, ends: Mapping[str, int]) -> None:
        """Record positions, by queue, that a server has acknowledged."""
        for queue, end in ends.items():
            key = self.key(server, queue)
            self.settled[key] = max(end, self.settled.get(key, 0))

    def forget(self) -> None:
        """Forget the tokens: the next request attaches again."""
        self.tokens.clear()
        self.answers.clear()

    # Attaching

    def _attach_on(self, server: Address, dry_run: bool = False, holder: bool = False, at_once: bool = False) -> None:
        """Attach on a server, or make a dry run; the `holder` changes its subscription.

        Then only new queues are named, unless one was deleted `at_once`: another queue may have its name.
        """
        self.answers.pop(server, None)
        subscription = self._options.subscription
        names = subscription.of(server)
        if subscription.pattern is not None:
            found = self._servers.ask_present(server, "cursor.queues")
            if found is None:
                return
            names = subscription.matching(found["queues"])
            self._listed[server] = (int(found["epoch"]), time.monotonic())
            self._changed[server] = int(found["epoch"])
            if not names and not dry_run:
                self._warn_no_match(server, found["queues"])
        if not holder:
            self._attach_all(server, names, dry_run)
            return
        here = {place.queue for place in self.places.values() if place.server == server}
        come = self._fitting(server, [name for name in names if name not in here], here, names)
        if at_once:
            self._attach_all(server, [name for name in names if name in here] + come, holder=True)
        elif come or not here.issubset(names):
            self._join(server, come, here.difference(names))

    def _fitting(self, server: Address, come: list[str], here: set[str], names: list[str]) -> list[str]:
        """Return the new queues; none if the cursor would have too many, which is reported."""
        stay = len(here.intersection(names))
        left = sum(place.server == server for place in self.left.values())
        if stay + left + len(come) <= self._most[server]:
            return come
        self._warn(
            f"{self._options.subject} at {server} reads {stay:,} queues and has left {left:,}; {len(come):,} more "
            f"would be beyond {self._most[server]:,}, the most of a cursor, so none of them joins: divide the queues "
            "among several cursors"
        )
        return []

    def _fields(self, server: Address, part: list[str], index: int, parts: int, holder: bool) -> dict[str, object]:
        """Return the fields of the request for a part of an attach."""
        fields: dict[str, object] = {
            "queues": part,
            "partial": self._options.subscription.pattern is not None,
            "identity": self.identity,
            "takeover": self._options.takes_over,
        }
        if parts > 1:
            fields["part"] = "first" if index == 0 else "last" if index == parts - 1 else "next"
        if holder:
            fields |= {"holder": True, "token": self.tokens[server]}
        return fields

    def _attach_all(self, server: Address, names: list[str], dry_run: bool = False, holder: bool = False) -> None:
        """Attach to all queues of a subscription, in as many requests as needed."""
        parts = parts_of(names)
        whole: dict[str, Any] = {}
        for index, part in enumerate(parts):
            fields = self._fields(server, part, index, len(parts), holder)
            if dry_run:
                fields |= {"starting": self._options.starting.of(server, part, holder), "dry_run": True}
                reply = self._servers.ask_present(server, "cursor.attach", **fields)
            else:
                reply = self._attach_part(server, part, fields, holder)
            if reply is None:
                self._give_up(server, dry_run)
                return
            _add_part(whole, reply)
            if not dry_run and index == 0 and len(parts) > 1:
                self.tokens[server], holder = int(reply["token"]), True
        whole["left"] = {queue: found for queue, found in whole["left"].items() if queue not in whole["initial"]}
        if dry_run and whole["positions"] + len(whole["new"]) > whole["most"]:
            raise CursorError(
                f"{self._options.subject} at {server} was refused: it reads {whole['positions']:,} queues, and "
                f"{len(whole['new']):,} more would be beyond {whole['most']:,}, the most of a cursor; divide the "
                "queues among several cursors"
            )
        self._take(server, whole)
        if not dry_run:
            self._tell(server, whole)

    def _give_up(self, server: Address, dry_run: bool = False) -> None:
        """Reset a server that went away between parts of an attach: all parts are sent again when it is back."""
        if not dry_run:
            self.tokens.pop(server, None)

    def _attach_part(
        self, server: Address, part: list[str], fields: dict[str, object], holder: bool
    ) -> dict[str, Any] | None:
        """Attach to a part of the queues; None while the server is away."""
        time_us = self._options.starting.time
        release = self._options.releases
        for left in range(ATTEMPTS - 1, -1, -1):
            starting = self._options.starting.of(server, part, holder)
            if time_us is not None:
                starting = self._starts_since(server, fields, time_us)
            try:
                return self._servers.ask_present(server, "cursor.attach", **fields, starting=starting, release=release)
            except CursorError:
                if time_us is None or not left:
                    raise  # Otherwise messages since that time may have left the queue meanwhile.
        return None

    def _join(self, server: Address, come: list[str], gone: Iterable[str]) -> None:
        """Let new queues join, and drop deleted queues."""
        whole: dict[str, Any] = {}
        for part in parts_of(come):
            reply = self._attach_part(server, part, self._fields(server, part, 1, 2, True), True)
            if reply is None:
                self._give_up(server)
                return
            _add_part(whole, reply)
        for queue in gone:
            self.places.pop(self.key(server, queue), None)
        self._take(server, whole, joins=True)
        self._tell(server, whole)

    def _starts_since(self, server: Address, fields: Mapping[str, object], time_us: int) -> dict[str, Start]:
        """Return the starts of the queues that are new to the cursor, by the time from which they are read."""
        checked = self._servers.ask_present(server, "cursor.attach", **fields, dry_run=True)
        if checked is None or not checked["new"]:
            return {}
        reply = self._servers.ask_present(server, "cursor.find", queues=checked["new"], timestamp=time_us)
        if reply is None:
            return {}
        for queue, found in reply["found"].items():
            self._warn(_start_sentence(self.key(server, queue), found, time_us))
        return {queue: found["offset"] for queue, found in reply["found"].items()}

    def _take(self, server: Address, reply: dict[str, Any], joins: bool = False) -> None:
        """Store the answer of an attach, or of a dry run, about the queues of a server.

        `joins`: the queues are added to the known queues.
        """
        self.answers[server] = reply
        self._most[server] = int(reply["most"])
        if "token" in reply:
            self.tokens[server] = int(reply["token"])
        if not joins:
            self.places = {key: place for key, place in self.places.items() if place.server != server}
        self.left = {key: place for key, place in self.left.items() if place.server != server}
        for queue in reply["initial"]:
            self.places[self.key(server, queue)] = Place(server, queue)
        self.initial |= self.keyed(server, reply["initial"])
        settled = self.keyed(server, reply["settled"])
        self.standing |= settled
        self.settled |= settled
        self.tail |= self.keyed(server, reply["tail"])
        generations = dict.fromkeys(reply["initial"], 0) | reply["generation"]
        self.generations |= self.keyed(server, generations)
        for queue, limits in reply["limits"].items():
            self.limits[self.key(server, queue)] = limits
        for queue, (position, tail) in reply["left"].items():
            key = self.key(server, queue)
            self.left[key] = Place(server, queue)
            self.standing[key], self.settled[key], self.tail[key] = position, position, tail
        self._forget_others()
        self._refused[server] = reply["refused"]

    def _tell(self, server: Address, reply: dict[str, Any]) -> None:
        """Warn of queues that the cursor has left, or could not read, or whose older messages are in another queue."""
        for queue, (settled, tail) in reply["left"].items():
            if tail > settled:
                self._warn_left(self.key(server, queue), settled, tail)
        for queue, reason in reply["refused"].items():
            self._warn(f"queue '{queue}' of {server} matches subscribePattern and is left out: {reason}")

        if self._options.starting.time is None and self._options.starting.offsets != "earliest":
            return
        for queue, limits in reply["limits"].items():
            if "retained" in limits and reply["settled"][queue] == reply["initial"][queue]:
                self._warn(
                    f"queue '{self.key(server, queue)}' retains what was settled in queue '{limits['retained']}': this "
                    f"query begins with what is still in '{queue}'; subscribe to '{limits['retained']}' for older "
                    "messages"
                )

    def _forget_others(self) -> None:
        """Drop answers about queues on which the cursor has no position any more."""
        tables: tuple[dict[str, Any], ...] = (
            self.initial,
            self.standing,
            self.settled,
            self.tail,
            self.generations,
            self.limits,
        )
        for table in tables:
            for key in [key for key in table if key not in self.places and key not in self.left]:
                del table[key]

    # Reporting

    def _warn_no_match(self, server: Address, names: list[str]) -> None:
        vhost, pattern = self._options.access.vhost, self._options.subscription.pattern
        some = f", such as {', '.join(sorted(names)[:SHOWN])}" if names else ""
        self._warn(
            f"subscribePattern '{pattern}' matches none of the {len(names)} queues of virtual host '{vhost}' at "
            f"{server}{some}; the query waits for one that does"
        )

    def _warn_left(self, key: str, settled: int, tail: int) -> None:
        self._warn(
            f"cursor '{self._options.cursor}' has left queue '{key}', to which the query no longer subscribes, at "
            f"{settled} of {tail}: the messages from {settled + 1} on are kept, and may hold its producers; subscribe "
            "to it again, or set onLeftQueue=release"
        )

    def _warn(self, text: str) -> None:
        """Log a warning, once."""
        if text not in self._warned:
            if len(self._warned) >= WARNED_MAX:
                self._warned.clear()
            self._warned.add(text)
            LOG.warning("penstock: %s", text)


def _add_part(whole: dict[str, Any], reply: Mapping[str, Any]) -> None:
    """Merge the answer to a part of an attach into earlier answers; lists and tables grow, and the last number
    counts."""
    for name, value in reply.items():
        if isinstance(value, dict) and name != "held":
            whole.setdefault(name, {}).update(value)
        elif isinstance(value, list):
            whole.setdefault(name, []).extend(value)
        elif name not in ("held", "created"):
            whole[name] = value
        else:
            whole.setdefault(name, value)


def _start_sentence(key: str, found: Mapping[str, Any], time_us: int) -> str:
    """Return the sequence at which a queue begins by time, as a sentence."""
    time, arrived = shown_instant(time_us), found["arrived"]
    if arrived is None:
        return (
            f"queue '{key}' begins at sequence {found['offset'] + 1}, its next message: none has arrived since {time}"
        )
    start = f"sequence {found['offset'] + 1}, which arrived at {shown_instant(arrived)}"
    if found["offset"] == found["earliest"] and arrived > time_us:
        return f"queue '{key}' begins at its oldest message, {start}: {time} is before that"
    return f"queue '{key}' begins at {start}, the first from {time} on"


def place_of(attachment: Attachment, key: str) -> Place:
    """Return the queue of a key in an offset, left queues too.

    Raises `CursorError` for a queue without a position of the cursor.
    """
    place = attachment.places.get(key) or attachment.left.get(key)
    if place is None:
        raise CursorError(f"a batch to be replayed reads '{key}', to which the query no longer subscribes")
    return place
