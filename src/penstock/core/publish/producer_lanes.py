"""Lanes of producers: the decided publishes of each lane, so that a reconnecting client repeats none of them.

Theory of operation. A *lane* is one publisher of a client: a channel with confirms, or a link. It outlives its session.
Names belong to a user: two users with the same ids have two lanes, and neither can take over the other. A session
begins with the ids of producer and lane, and an *epoch*, a number that rises with each session of the lane. Its
publishes have numbers by their order: the n-th has the number `taken + n`, with the `taken` of the broker's answer.

The *mark* of a lane is `taken`, up to which all publishes are decided: they are in their queues, refused, or
unroutable; and the refused numbers among the last ones, as many as its client keeps without an outcome. The journal
writes it with each group that has a message of the lane, as it is when the group is closed. So message and mark are in
the store, or neither is. A message that is not stored is lost by a restart, and so is its part of the mark.

A higher epoch *fences* the earlier session: it accepts no more publishes, and its held publishes are dropped before the
mark is read. The client is answered when all publishes that the mark covers are on disk.

A lane without a session is dropped after some time, and a later client is answered that its mark is unknown. At the
limit of a user, the user's lane that has had no session for longest is dropped.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.journal.group import JournalGroup, SealedState
from penstock.core.publish.context import PublishContext
from penstock.core.publish.producer import Producer
from penstock.errors import Fenced, PreconditionFailed, ResourceError, ResourceLocked
from penstock.flow.confirms import LaneNumbers
from penstock.flow.pool import PoolHolder
from penstock.flow.timers import NEVER, TimerHandler
from penstock.settings.pools import LANES

USER_LANES_MAX: Final = 20_000
"""Most lanes of one user."""
NAMED_IDLE_S: Final = 86_400.0
UNNAMED_IDLE_S: Final = 600.0
"""Seconds without a session after which a lane is dropped: a day if its producer is named, else ten minutes."""
WINDOW_MAX: Final = 4_096
"""Most publishes without an outcome of a lane's client, and so most refused numbers in a mark."""
ID_CHARACTERS_MAX: Final = 255
"""Longest id of a producer or a lane."""
DROPPED_AT_ONCE: Final = 500
"""Most lanes that one call of the timer drops."""


LaneKey = tuple[str, str, str, str]
"""Key of a lane: virtual host, user, ids of producer and lane."""


class LaneRequest:
    """Request of a client for a lane. Raises PreconditionFailed (406)."""

    def __init__(self, producer: str, lane: str, epoch: i64, window: i64, named: bool) -> None:
        for what, text in (("producer", producer), ("lane", lane)):
            if not 1 <= len(text) <= ID_CHARACTERS_MAX:
                raise PreconditionFailed(f"'{what}' must have 1 to {ID_CHARACTERS_MAX} characters, not {len(text)}")
        if epoch < 1:
            raise PreconditionFailed(f"'epoch' must be a number from 1 on, not {epoch}")
        if not 1 <= window <= WINDOW_MAX:
            raise PreconditionFailed(f"'window' must be a number from 1 to {WINDOW_MAX}, not {window}")
        self.producer = producer
        self.lane = lane
        self.epoch: i64 = epoch
        self.window: i64 = window
        self.named = named
        """True if the id of the producer is a permanent name."""


class LaneRecord:
    """The mark of a lane as a journal group writes it; it never changes."""

    def __init__(self, vhost: str, producer: str, lane: str, user: str) -> None:
        self.vhost = vhost
        self.producer = producer
        self.lane = lane
        self.user = user
        self.named: bool = False
        self.epoch: i64 = 0
        self.taken: i64 = 0
        self.refused: list[int] = []
        """Refused numbers, in the order of the refusals."""


class Lane(SealedState):
    """One publisher of a client, over all its sessions."""

    __slots__ = (
        "vhost",
        "producer",
        "name",
        "user",
        "named",
        "epoch",
        "window",
        "taken",
        "numbers",
        "session",
        "group",
    )

    def __init__(self, vhost: str, producer: str, name: str, user: str) -> None:
        self.vhost = vhost
        self.producer = producer
        """Id of the producer."""
        self.name = name
        self.user = user
        """The user that the lane belongs to."""
        self.named: bool = False
        self.epoch: i64 = 0
        """Epoch of the last session."""
        self.window: i64 = WINDOW_MAX
        self.taken: i64 = 0
        """Number up to which publishes were decided when the last session ended."""
        self.numbers = LaneNumbers(0, [], WINDOW_MAX)
        self.session: Producer | None = None
        """The producer of the session; None without one."""
        self.group: JournalGroup | None = None
        """The last journal group that writes the lane's mark."""

    def key(self) -> LaneKey:
        """Return the key that identifies the lane."""
        return self.vhost, self.user, self.producer, self.name

    def decided(self) -> i64:
        """Return the number up to which publishes are decided."""
        return self.taken if self.session is None else self.numbers.offset + self.session.confirms.decided()

    def refused(self) -> list[int]:
        """Return the refused numbers that the client may not know yet."""
        seen = self.decided() - self.window
        return [number for number in self.numbers.refused if number > seen]

    def join(self, group: JournalGroup) -> None:
        """Add the mark that belongs to the messages of a group to that group."""
        if self.group is not group:
            self.group = group
            group.states.append(self)

    @override
    def sealed(self) -> object:
        self.group = None
        return self.record()

    def record(self) -> LaneRecord:
        """Return the mark of the lane."""
        record = LaneRecord(self.vhost, self.producer, self.name, self.user)
        record.named = self.named
        record.epoch = self.epoch
        record.taken = self.decided()
        record.refused = self.refused()
        return record

    def describe(self) -> str:
        """Return lane and producer."""
        return f"lane '{self.name}' of producer '{self.producer}'"


class BegunLane:
    """Answer to the beginning of a session: the outcomes of earlier publishes."""

    def __init__(self, known: bool, taken: i64, refused: list[int]) -> None:
        self.known = known
        """False if the lane has no mark: the lane is new, or its mark was dropped."""
        self.taken: i64 = taken
        self.refused = refused


class UserLanes(TimerHandler):
    """The lanes of one user, and the lanes without a session in the order in which their sessions ended."""

    def __init__(self, lanes: ProducerLanes) -> None:
        super().__init__()
        self.count: i64 = 0
        """Number of lanes, with and without a session."""
        self._lanes = lanes
        self._named: dict[Lane, float] = {}
        self._unnamed: dict[Lane, float] = {}
        """Lanes without a session, and the time at which each session ended: monotonic seconds."""

    def rest(self, lane: Lane, now: float) -> float:
        """Record that a lane has no session; return when to drop the lane."""
        (self._named if lane.named else self._unnamed)[lane] = now
        return now + (NAMED_IDLE_S if lane.named else UNNAMED_IDLE_S)

    def wake(self, lane: Lane) -> None:
        """Record that a lane has a session again, or is dropped."""
        self._named.pop(lane, None)
        self._unnamed.pop(lane, None)

    def longest_idle(self) -> Lane | None:
        """Return the lane to drop for another, lanes of unnamed producers first; None if there is none."""
        for idle in (self._unnamed, self._named):
            for lane in idle:
                return lane
        return None

    @override
    def on_deadline(self, now: float) -> float:
        left = DROPPED_AT_ONCE
        following = NEVER
        for idle, limit in ((self._unnamed, UNNAMED_IDLE_S), (self._named, NAMED_IDLE_S)):
            for lane, since in list(idle.items()):
                if now < since + limit or left == 0:
                    following = min(following, since + limit)
                    break
                left -= 1
                self._lanes.drop(lane)
        return following


class ProducerLanes:
    """The lanes of all producers, by virtual host, user, producer and lane."""

    def __init__(self, broker: PublishContext) -> None:
        self._broker = broker
        self._pool = broker.pools.of(LANES)
        self._lanes: dict[LaneKey, Lane] = {}
        self._users: dict[str, UserLanes] = {}

    def of(self, vhost: str, user: str, producer: str, lane: str) -> Lane | None:
        """Return a lane; None if there is none."""
        return self._lanes.get((vhost, user, producer, lane))

    def count(self) -> int:
        """Return the number of lanes."""
        return len(self._lanes)

    def begin(self, session: Producer, vhost: str, user: str, request: LaneRequest) -> BegunLane:
        """Begin the next session of a lane, or the first.

        Raises PreconditionFailed (406) for a session that has published already, Fenced (409) for an epoch that is not
        higher than the last one, ResourceError (506) at a limit.
        """
        if session.confirms.published > 0 or session.lane is not None or session.transaction is not None:
            raise PreconditionFailed("a lane begins before the first publish of its channel or link, and once")
        lane = self.of(vhost, user, request.producer, request.lane)
        known = lane is not None
        if lane is not None and request.epoch <= lane.epoch:
            raise Fenced(
                f"{lane.describe()} has begun with epoch {lane.epoch}, and {request.epoch} is not higher: another "
                "session continues it"
            )
        if self._broker.journal is not None:
            self._broker.journal.check_writable()
        if lane is None:
            lane = Lane(vhost, request.producer, request.lane, user)
            self._add(lane)
        elif lane.session is not None:
            self._fence(lane, request.epoch)
        self._users[user].wake(lane)
        lane.named = request.named
        begun = BegunLane(known, lane.taken, lane.refused())
        lane.epoch = request.epoch
        lane.window = request.window
        decided = [number for number in begun.refused if number <= lane.taken]  # Later numbers are assigned again.
        lane.numbers = LaneNumbers(lane.taken, decided, int(request.window))
        lane.session = session
        session.lane = lane
        session.confirms.lane = lane.numbers
        if self._broker.journal is not None:
            self._broker.journal.change(lane.record())
        return begun

    def leave(self, lane: Lane) -> None:
        """End the session of a lane, which keeps its mark for the next session."""
        session = lane.session
        if session is None:
            return
        lane.taken = lane.decided()
        lane.session = None
        session.lane = None
        session.confirms.lane = None
        if self._lanes.get(lane.key()) is lane:
            self._rest(lane)

    def drop(self, lane: Lane) -> None:
        """Drop a lane and its mark. Its open session continues without a lane."""
        user = self._users[lane.user]
        user.wake(lane)
        user.count -= 1
        self._pool.give(PoolHolder(lane.user, lane.vhost), 1)
        del self._lanes[lane.key()]
        if user.count == 0:
            self._broker.timers.drop(user)
            del self._users[lane.user]
        if self._broker.journal is not None:
            self._broker.journal.forget(lane.record())
        self._broker.work.done += 1

    def drop_vhost(self, vhost: str) -> None:
        """Drop the lanes of a virtual host that is being deleted."""
        for key, lane in list(self._lanes.items()):
            if key[0] == vhost:
                self.leave(lane)
                self.drop(lane)

    def restore(self, record: LaneRecord) -> None:
        """Restore a mark from the store; its lane has no session. Of two marks of a lane the later counts."""
        known = self.of(record.vhost, record.user, record.producer, record.lane)
        if known is not None:
            if known.epoch > record.epoch or (known.epoch == record.epoch and known.taken >= record.taken):
                return
            self._users[known.user].wake(known)
            self._users[known.user].count -= 1
        lane = Lane(record.vhost, record.producer, record.lane, record.user)
        lane.named = record.named
        lane.epoch = record.epoch
        lane.taken = record.taken
        lane.numbers = LaneNumbers(0, record.refused, WINDOW_MAX)
        self._put(lane)
        self._rest(lane)

    def _fence(self, lane: Lane, epoch: i64) -> None:
        """End the session of a lane: drop its held publishes and accept no further publishes."""
        session = lane.session
        assert session is not None
        self.leave(lane)
        session.fail(ResourceLocked(f"{lane.describe()} was continued by another session, with epoch {epoch}"))

    def _add(self, lane: Lane) -> None:
        user = self._users.get(lane.user)
        holder = PoolHolder(lane.user, lane.vhost)
        if user is not None and (user.count >= USER_LANES_MAX or not self._pool.fits(holder, 1)):
            idle = user.longest_idle()
            if idle is not None:
                self.drop(idle)
        used = self._users.get(lane.user)
        if used is not None and used.count >= USER_LANES_MAX:
            raise ResourceError(
                f"user '{lane.user}' has {USER_LANES_MAX:,} lanes, the most there may be, and each has a session; "
                "use fewer publishers, or publish without a lane"
            )
        if not self._pool.fits(holder, 1):
            raise ResourceError(f"{self._pool.refusal(holder, 1)}. Use fewer publishers, or publish without a lane")
        self._put(lane)

    def _put(self, lane: Lane) -> None:
        user = self._users.get(lane.user)
        if user is None:
            user = UserLanes(self)
            self._users[lane.user] = user
        user.count += 1
        self._pool.add(PoolHolder(lane.user, lane.vhost), 1)
        self._lanes[lane.key()] = lane

    def _rest(self, lane: Lane) -> None:
        user = self._users[lane.user]
        self._broker.timers.add(user, user.rest(lane, self._broker.now))
