"""Carrier by blocks: messages of one Penstock go to another exactly once, in their order.

Theory of operation. A cursor at the source plans ranges, and `cursor.range` reads them as blocks of whole messages. The
blocks are rows of a query at the target, whose mark has the number of rows and the source's sequence of the last one,
in the transaction of the rows themselves. What the mark has is settled at the source. So the carrier keeps nothing: one
that was killed anywhere asks both ends, and goes on behind what the target has.

The name of the query has the id of the cursor and the number of queues that the cursor has lost. A queue that was
declared anew, a cursor made anew and a source without its store have other names, and begin anew.

Between the plan and the settlement a message may be at both ends. If the marks are gone then (dropped after a week, or
lost with their store), nobody knows, and the carrier refuses to guess: an operator moves the cursor. A carrier that was
there all the time knows that a target which has lost its marks has lost the messages with them.

A full target holds the answer to a block. The source is not settled, and its gate holds its producers. Blocks that wait
long become smaller, so that the source is settled in small steps.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections import deque
from contextlib import suppress
from typing import Any, Final, TypeVar

from penstock.bridges.carried_block import CarriedBlock, sequence_at
from penstock.bridges.carrier import EMPTY_S, LOOK_S, Terms
from penstock.bridges.ends import End
from penstock.bridges.held_why import HeldWhy
from penstock.bridges.state import AWAY, HELD, IDLE, MOVING, REFUSED, State
from penstock.client import cursors
from penstock.client.aio import Connection
from penstock.client.engine.connection import OPEN
from penstock.client.engine.events import CLOSED, LOST, RECONNECTED, Event
from penstock.client.errors import ClientError, ConnectionClosed, ControlError, Timeout
from penstock.client.options import Options
from penstock.errors import ConfigError, PenstockError
from penstock.flow.gate import DEADLINE

T = TypeVar("T")

ROWS: Final = 8192
ROWS_LEAST: Final = 64
"""Messages of a block: the most, and the most under pressure."""
BLOCK_BYTES: Final = 2 * 1024 * 1024
UNANSWERED_BYTES: Final = 8 * 1024 * 1024
UNANSWERED: Final = 4
"""Bytes of a block, and bytes and number of the blocks without an answer; one message may be larger."""
PLANNED: Final = 8
"""Blocks of a plan."""
SLOW_S: Final = 0.25
QUICK_S: Final = 0.05
"""Seconds of one block above which the next ones are smaller, and below which they are larger."""
GATHER_ROWS: Final = 64
GATHER_S: Final = 0.02
"""Messages for which a plan waits so long, while others move."""
IDLE_S: Final = 10.0
"""Seconds for which a plan waits for a message."""
ANSWER_S: Final = 86_400.0
"""Seconds for which a block may wait: its hold deadline at the target ends it earlier."""
ENDING_S: Final = 10.0
"""Most seconds in which the end waits for answers."""
PAUSE_S: Final = 1.0
PAUSE_MOST_S: Final = 30.0
"""Seconds before refused messages are sent again, and before a refused request: they double up to the most."""
KNOWN_S: Final = 3_600.0
"""Seconds for which marks are safe: a target that has none after less has lost its messages with them."""
REASONS: Final = 10
"""Different reasons of refusals that are kept."""
NAME_CHARACTERS: Final = 80
"""Characters of a bridge's name in the names of its cursor and its query; a longer one is cut, with a digest."""
COLUMNS: Final = ("sequence", "content")
KEY: Final = "routing_key"
IN_USE_S: Final = 5.0
"""Seconds for which the cursor may be in use when the carrier begins."""
_IN_USE: Final = 405
_FENCED: Final = 409
_NOT_FOUND: Final = 404


class Known:
    """Knowledge of one bridge about its target, for its attempts in a process: each has a carrier of its own."""

    def __init__(self) -> None:
        self.at = 0.0
        """Time of the last answer of the target about the query; 0 before the first."""


class Doubtful(ClientError):
    """Some messages may be at the target already, and it does not know."""


class _Refused(ClientError):
    """The target has refused a row."""

    def __init__(self, text: str, again: bool, is_held: bool) -> None:
        super().__init__(text)
        self.again = again
        """True if it may take the row later."""
        self.is_held = is_held
        """True if the row has waited for room until its hold deadline."""


class _Sent:
    """A block without an answer."""

    def __init__(self, block: CarriedBlock, answer: asyncio.Task[Any], sequences: bytes) -> None:
        self.rows = block.rows
        self.bytes = block.bytes
        self.sequences = sequences
        self.answer = answer


class BlockCarrier:
    """Carrier between two ends. `run` carries; `stop` lets it end."""

    def __init__(
        self,
        source: End,
        target: End,
        old: Options,
        new: Options,
        terms: Terms,
        name: str = "",
        state: State | None = None,
        known: Known | None = None,
    ) -> None:
        """`old` and `new` are the options of the connections; `name` is the bridge's, without one that of both ends."""
        self._source = source
        self._target = target
        self._options = (old, new)
        self._terms = terms
        self._label = label_of(name or f"{source} to {target}")
        self.state = State() if state is None else state
        self.lag: int | None = None
        """Messages of the source that the target does not have, as of the last plan; None if unknown."""
        self._why = HeldWhy(new, target.queue)
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()
        """Set when a connection is back, or closed for good."""
        self._away: dict[str, str] = {}
        """Reasons by the end whose connection is lost."""
        self._cursor = f"bridge {self._label}"
        self._token = 0
        self._ids: dict[str, object] = {}
        """Ids of the query at the target."""
        self._attempt = 0
        self._identity = os.urandom(8).hex()
        self._began = 0.0
        self._row = 0
        """Number of the next row that the target expects."""
        self._at = 0
        """Sequence up to which the target has taken everything."""
        self._settled = 0
        self._settling: asyncio.Task[None] | None = None
        self._rows = ROWS
        self._known = Known() if known is None else known
        self._has_begun = False
        self._sent: deque[_Sent] = deque()
        self._answered_at = 0.0

    @property
    def why(self) -> list[str]:
        """Return what the target says of its gates, while it holds."""
        return self._why.sentences

    @property
    def underway(self) -> int:
        """Return 0: no message is in doubt, because the target knows those that it has taken."""
        return 0

    def stop(self) -> None:
        """Send no more messages, and end when those on their way have an answer."""
        self._stopping.set()

    async def run(self) -> State:
        """Carry until the end that the terms give, or `stop`. Raises `PenstockError` as the client does."""
        old, new = (Connection(options) for options in self._options)
        self._listen(old, "the source")
        self._listen(new, "the target")
        async with new, old:
            for connection, end in ((old, self._source), (new, self._target)):
                if not connection.core().is_penstock():
                    broker = connection.core().broker_name()
                    raise ConfigError(f"{end} is on {broker}: only two Penstocks carry exactly once")
            try:
                await self._run(old, new)
                await self._settle_last(old)
                await self._leave(old)
            finally:
                await self._end()
        return self.state

    async def _run(self, old: Connection, new: Connection) -> None:
        pause, self._began = PAUSE_S, self._now()
        while not self._stopping.is_set():
            carried = self.state.carried
            try:
                await self._open(old, new)
                await self._carry(old, new)
                return
            except (ConnectionClosed, Timeout) as error:
                self._drop_sent()
                await self._returned(old, new, error)
            except (ControlError, _Refused, Doubtful) as error:
                self._drop_sent()
                if self._is_final(error):
                    raise
                is_held = isinstance(error, _Refused) and error.is_held
                if is_held or self.state.carried > carried:
                    pause = PAUSE_S
                if is_held:
                    self.state.change(HELD, str(error), self._now())
                elif not (isinstance(error, ControlError) and error.code == _FENCED):
                    self._refuse(error)
                await self._pause(pause)
                pause = min(2 * pause, PAUSE_MOST_S)

    def _is_final(self, error: ClientError) -> bool:
        """Return whether the carrier ends with an error, and does not try again."""
        if isinstance(error, ControlError):
            if error.code == _IN_USE:  # By a bridge that was killed a moment ago, perhaps.
                return self._now() - self._began > IN_USE_S
            return not self._has_begun or (self._must_end() and error.code != _FENCED)
        return self._must_end() and not (isinstance(error, _Refused) and error.again)

    def _must_end(self) -> bool:
        return self._terms.until_empty or self._terms.count is not None

    # Beginning

    async def _open(self, old: Connection, new: Connection) -> None:
        """Attach to the cursor, and find out what the target has."""
        queue = self._source.queue
        held = await old.request(
            cursors.ATTACH,
            cursor=self._cursor,
            queues=[queue],
            starting="earliest",
            identity=self._identity,
            planned=True,
        )
        settled, planned = held["settled"][queue], held["planned"][queue]
        generation = held["generation"].get(queue, 0)
        self._token = held["token"]
        self._attempt += 1
        self._ids = {
            "query": f"bridge {self._label} {held['id']}.{generation}",
            "batch": 0,
            "run": "",
            "write": self._identity,
            "exchange": self._target.exchange,
            "routing_key": self._key(),
        }
        begun = await self._begin(new, settled, planned)
        self._known.at, self._has_begun = self._now(), True
        self._row, reached = begun["rows"], begun["reached"]
        # The position was moved by an operator, or is that of an older store: it counts, and not the mark.
        self._at = reached if settled <= reached <= planned else settled
        self._settled = settled
        self._rows = ROWS
        self._settle(old)

    async def _begin(self, new: Connection, settled: int, planned: int) -> dict[str, Any]:
        """Return what the target has of this query. Raises `Doubtful` if nobody knows."""
        fields = {**self._ids, "delivery": "dedup", "partition": 0, "attempt": self._attempt, "sequences": True}
        was_there = self._known.at > 0 and self._now() - self._known.at < KNOWN_S
        is_doubtful = planned > settled and not was_there
        try:
            return await new.request("sink.begin", **fields, known=is_doubtful or None)
        except ControlError as error:
            if not is_doubtful or error.code != _NOT_FOUND:
                raise
            queue = self._source.queue
            raise Doubtful(
                f"up to {planned - settled:,} messages may be at {self._target} already, and it has lost its marks of "
                f"them; look there, and move cursor '{self._cursor}' to {queue}={settled} to carry them again, or to "
                f"{queue}={planned} to pass over them (penstock cursors move --force)"
            ) from error

    def _key(self) -> str | None:
        """Return the routing key of all messages; None if each keeps its own."""
        return self._target.queue or self._target.key

    # Carrying

    async def _carry(self, old: Connection, new: Connection) -> None:
        """Carry until `stop`, or until the terms are met."""
        wait_s, quiet_since = 0.0, self._now()
        while not self._stopping.is_set():
            rows = PLANNED * self._rows
            if self._terms.count is not None:
                rows = min(rows, self._terms.count - self.state.carried)
                if rows <= 0:
                    return
            plan = await self._plan(old, rows, wait_s)
            end = plan["end"][self._source.queue]
            self.lag = max(plan["tail"][self._source.queue] - self._at, 0)
            if end > self._at:
                await self._carry_range(old, new, end)
                quiet_since, wait_s = self._now(), GATHER_S
            elif wait_s <= GATHER_S:
                wait_s = EMPTY_S
            elif self._terms.until_empty and self._now() - quiet_since >= EMPTY_S:
                return
            elif not self._terms.until_empty:
                wait_s = IDLE_S
            self._look()

    async def _plan(self, old: Connection, rows: int, wait_s: float) -> dict[str, Any]:
        """Plan a range. While messages move it waits a moment for more, and not beyond its first message else."""
        queue = self._source.queue
        fields = {
            "cursor": self._cursor,
            "token": self._token,
            "start": {queue: self._at},
            "rows": rows,
            "bytes": PLANNED * BLOCK_BYTES,
            "least": GATHER_ROWS if wait_s == GATHER_S else 0,
            "wait_ms": round(wait_s * 1000),
        }
        planning = self._request(old, cursors.PLAN, fields, old.core().terms.call_timeout + wait_s)
        found = await self._unless_stopped(planning)
        return found or {"end": {queue: self._at}, "tail": {queue: self._at}}

    async def _carry_range(self, old: Connection, new: Connection, end: int) -> None:
        """Carry the messages after `_at` up to `end`. Raises `_Refused` if the target refuses one."""
        at = self._at
        row = self._row
        while at < end and not self._stopping.is_set():
            block = await self._read(old, at, end)
            if not block.rows:
                break
            while self._sent and not self._has_room(block.bytes):
                await self._confirm(old)
            self._send(new, block, row)
            row += block.rows
            at = block.last
        while self._sent:
            await self._confirm(old)
        if at == end or not self._stopping.is_set():
            self._at = end  # Messages at the end of the range may have left the source.
            self._settle(old)

    def _has_room(self, octets: int) -> bool:
        waiting = sum(each.bytes for each in self._sent)
        return len(self._sent) < UNANSWERED and waiting + octets <= UNANSWERED_BYTES

    async def _read(self, old: Connection, at: int, end: int) -> CarriedBlock:
        columns = COLUMNS if self._key() is not None else (*COLUMNS, KEY)
        fields = {
            "cursor": self._cursor,
            "token": self._token,
            "queue": self._source.queue,
            "lo": at,
            "hi": end,
            "rows": self._rows,
            "bytes": BLOCK_BYTES,
            "columns": columns,
        }
        found = await self._request(old, cursors.RANGE, fields)
        if not isinstance(found, memoryview):
            raise ClientError("the broker answered cursor.range with an object where a block was due")
        return CarriedBlock(found)

    def _send(self, new: Connection, block: CarriedBlock, row: int) -> None:
        mark = {**self._ids, "partition": 0, "attempt": self._attempt, "row": row, "digest": ""}
        sequences = block.sequences()
        data = block.published(self._target.exchange, self._key(), mark)
        if not self._sent:
            self._answered_at = self._now()
        self._sent.append(_Sent(block, self._request(new, "publish.block", data, ANSWER_S), sequences))

    async def _confirm(self, old: Connection) -> None:
        """Wait for the answer to the first block, and settle what the target has taken. Raises `_Refused`."""
        sent = self._sent[0]
        while not sent.answer.done():
            await asyncio.wait({sent.answer}, timeout=LOOK_S)
            if not sent.answer.done():
                self._look()
        self._sent.popleft()
        answer = sent.answer.result()
        now, taken = self._now(), int(answer["taken"])
        self._known.at = now
        if taken:
            self._row += taken
            self._at = sequence_at(sent.sequences, taken - 1)
            state = self.state
            state.carried += taken
            state.bytes += sent.bytes if taken == sent.rows else sent.bytes * taken // sent.rows
            state.last = now
            self._settle(old)
        self._adapt(now - self._answered_at)
        self._answered_at = now
        if taken == sent.rows:
            self._look()
            return
        again = answer.get("retriable") is True
        await self._drain()
        reason = str(answer.get("text", "it gives no reason"))
        if answer.get("cause") == DEADLINE:
            raise _Refused(f"{self._target} has no room: {reason}", True, True)
        raise _Refused(f"{self._target} refuses: {reason}", again, False)

    def _adapt(self, seconds: float) -> None:
        """Make the next blocks smaller if the target takes long for one, and larger if it does not."""
        if seconds > SLOW_S:
            self._rows = max(self._rows // 2, ROWS_LEAST)
        elif seconds < QUICK_S:
            self._rows = min(self._rows * 2, ROWS)

    async def _drain(self) -> None:
        """Wait for the answers to blocks behind a refused one: none of their rows is taken."""
        waiting = {each.answer for each in self._sent}
        if waiting:
            await asyncio.wait(waiting)
        self._sent.clear()

    def _drop_sent(self) -> None:
        for each in self._sent:
            each.answer.cancel()
        self._sent.clear()
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None

    # Settling

    def _settle(self, old: Connection) -> None:
        """Settle at the source what the target has, beside the next blocks."""
        if self._at > self._settled and (self._settling is None or self._settling.done()):
            self._settling = asyncio.ensure_future(self._settled_up(old))

    async def _settled_up(self, old: Connection) -> None:
        with suppress(PenstockError):  # The next request over the connection has the same error.
            while self._settled < self._at:
                end = self._at
                fields = {"cursor": self._cursor, "token": self._token, "end": {self._source.queue: end}}
                await self._request(old, cursors.SETTLE, fields)
                self._settled = end

    # Ending, and waiting for the ends

    async def _settle_last(self, old: Connection) -> None:
        """Wait for the answers to blocks on their way, and settle what was taken."""
        with suppress(PenstockError, TimeoutError):
            async with asyncio.timeout(ENDING_S):
                while self._sent:
                    await self._confirm(old)
        if self._settling is not None:
            await asyncio.wait({self._settling}, timeout=ENDING_S)

    async def _leave(self, old: Connection) -> None:
        """Delete the cursor, if no message is at both ends and none would be read again: the queue is ordinary again.

        The next bridge has another cursor, and begins with what is left. A stream, and a queue that others read by
        cursors, have messages that this bridge has carried: there the cursor stays.
        """
        if not self._token or self._sent or self._settled != self._at:
            return
        queue = self._source.queue
        with suppress(PenstockError):
            fields = {"cursor": self._cursor, "token": self._token, "end": {queue: self._at}}
            await self._request(old, cursors.SETTLE, fields)  # It is refused if the cursor is another bridge's now.
            next_one = {"cursor": f"{self._cursor} next", "queues": [queue], "starting": "earliest", "dry_run": True}
            found = await self._request(old, cursors.ATTACH, next_one)
            if found["initial"][queue] >= self._at:
                await old.request(cursors.DELETE, cursor=self._cursor)

    async def _end(self) -> None:
        """Drop what is left: requests without an answer, and the question why the target holds."""
        self._drop_sent()
        await self._why.close()

    async def _unless_stopped(self, asked: asyncio.Task[T]) -> T | None:
        """Wait for an answer; None if the carrier is stopped before."""
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((asked, stopping), return_when=asyncio.FIRST_COMPLETED)
            return asked.result() if asked.done() else None
        finally:
            stopping.cancel()
            if not asked.done():
                asked.cancel()

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):  # In Python 3.11 asyncio.wait_for may swallow a cancellation.
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    async def _returned(self, old: Connection, new: Connection, error: ClientError) -> None:
        """Wait until both connections are there. Raises the error if one is closed for good."""
        ends = {"the source": old, "the target": new}
        while not self._stopping.is_set():
            self._changed.clear()
            if CLOSED in self._away.values():
                raise error
            if all(each.core().phase == OPEN for each in ends.values()):
                return
            lost = next((noun for noun, each in ends.items() if each.core().phase != OPEN), "the target")
            self.state.change(AWAY, f"{lost} is away: {self._away.get(lost, error)}", self._now())
            changing = asyncio.ensure_future(self._changed.wait())
            await self._unless_stopped(changing)

    def _listen(self, connection: Connection, noun: str) -> None:
        def heard(event: Event) -> None:
            if event.kind == LOST:
                self._away[noun] = event.reason
            elif event.kind == RECONNECTED:
                self._away.pop(noun, None)
            elif event.kind == CLOSED:
                self._away[noun] = CLOSED
            self._changed.set()

        connection.on_event(heard)

    # State

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _refuse(self, error: ClientError) -> None:
        state, text = self.state, str(error)
        if text not in state.reasons and len(state.reasons) < REASONS:
            state.reasons.append(text)
        state.change(REFUSED, text, self._now())

    def _look(self) -> None:
        """Set the state from what was seen last."""
        now, state = self._now(), self.state
        if self._away:
            noun, reason = next(iter(self._away.items()))
            state.change(AWAY, f"{noun} is away: {reason}", now)
        elif state.last and now - state.last < EMPTY_S and not self._is_held(now):
            state.change(MOVING, "", now)
        elif self._sent:
            rows = sum(each.rows for each in self._sent)
            sentence = self.why[0] if self.why else f"it has not confirmed {rows:,} messages"
            state.change(HELD, f"{self._target} has no room: {sentence}", now)
            self._why.ask_beside(now)
        else:
            state.change(IDLE, "", now)

    def _is_held(self, now: float) -> bool:
        return bool(self._sent) and now - self._answered_at > EMPTY_S

    def _request(
        self, connection: Connection, operation: str, fields: dict[str, Any] | bytes, timeout: float | None = None
    ) -> asyncio.Task[Any]:
        engine = connection.core()
        return asyncio.ensure_future(connection.run(engine.requesting(operation, fields, timeout)))


def label_of(name: str) -> str:
    """Return the part of the names of a cursor and a query that stands for a bridge: printable ASCII."""
    if len(name) <= NAME_CHARACTERS and name.isascii() and name.isprintable():
        return name
    shown = "".join(each for each in name if each.isascii() and each.isprintable())
    digest = hashlib.blake2b(name.encode(), digest_size=6).hexdigest()
    return f"{shown[: NAME_CHARACTERS - 13]}#{digest}"


async def block_obstacle(old: Connection, new: Connection, source: End, terms: Terms, name: str = "bridge") -> str:
    """Return why a bridge cannot carry exactly once, as a sentence; empty if it can.

    The connections are open. A priority queue, one that drops its first messages and one with consumers cannot be read
    by a cursor as it is consumed; a selector and the header of hops need each message.
    """
    if terms.selector or terms.with_hops or terms.hops_most:
        return "a selector, and the header x-received-from, need the messages one by one"
    for connection, noun in ((old, "the source"), (new, "the target")):
        if not connection.core().is_penstock():
            return f"{noun} is {connection.core().broker_name()}: only two Penstocks carry exactly once"
    try:
        declared = await old.run(old.core().calling("queue.declare", {"queue": source.queue, "passive": True}))
        if int(declared["consumer_count"]):
            return f"queue {source.queue} has consumers, with which a bridge competes by messages only"
        await old.request(
            cursors.ATTACH,
            cursor=f"bridge {label_of(name)}",
            queues=[source.queue],
            starting="earliest",
            dry_run=True,
        )
    except ControlError as error:
        return error.text
    return ""
