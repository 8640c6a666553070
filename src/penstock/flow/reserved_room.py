"""Room that is reserved in one queue for granted credit: its sum, and its holders, from which idle room is revoked.

Theory of operation. A reservation is a promise to one sender, and must be no wall for others. So the room is shared:
first among the users that want some, then among the connections of each (`Party`). A first grant takes no connection
beyond its share. Whoever finds an open gate and reserved room in the way recalls it (`recall`): holders give back at
once what lies idle, and what their connection has beyond its share without having used any. The others are looked at
again soon.

A recall looks at a bounded number of holders, those first that were looked at longest ago.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.flow.level import UNLIMITED, Level
from penstock.flow.timers import NEVER

RECALL_S: Final = 0.1
"""Seconds between two examinations of holders that have nothing to give back. Their use in that time is measured."""
RECALLED_A_TURN: Final = 64
"""Most holders that one recall looks at."""
WANTED_S: Final = 10.0
"""Seconds for which a connection that had to wait has a share of the room."""
PARTIES_MAX: Final = 1024
"""Number of connections from which those without room are forgotten first."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Party:
    """One connection, as a party to the sharing of room."""

    def __init__(self, user: str, name: str) -> None:
        self.user = user
        self.name = name
        """Name of the connection, as in logs and `penstock connections block`."""


@mypyc_attr(allow_interpreted_subclasses=True)
class RoomHolder:
    """A holder of reserved room: the reservation of one sender."""

    party: Party | None
    """Its connection; None shares with nobody."""

    def keep_part(self, room: int, reserved: int, now: float) -> None:
        """Keep `room` of every `reserved` parts of the unused room, rounded down; give the rest back."""
        raise NotImplementedError

    def recall(self, beyond_share: bool, now: float) -> None:
        """Give back idle room now, and examine the rest soon, because a sender lacks room.

        `beyond_share`: its connection has more than its share, so that room which was never used counts as idle.
        """
        raise NotImplementedError


class PartyRoom:
    """The room of one connection."""

    __slots__ = ("user", "messages", "bytes", "wanted_at")

    def __init__(self, user: str) -> None:
        self.user = user
        self.messages: i64 = 0
        self.bytes: i64 = 0
        self.wanted_at: float = -NEVER
        """Time at which it last had to wait for room (monotonic seconds)."""


NO_ROOM: Final = PartyRoom("")
"""That of a connection without any, which nobody changes."""


class RoomHolders:
    """The holders with unused room in one queue, and the connections that share it."""

    def __init__(self) -> None:
        self.by_identity: dict[int, RoomHolder] = {}
        self.parties: dict[str, PartyRoom] = {}
        """Connections with room, or that want some, by name."""
        self.users: dict[str, i64] = {}
        """Number of those connections, by user."""
        self.to_look_at: i64 = 0
        """Holders that the present recall has not looked at yet."""
        self.freed: bool = False
        """True if the present recall has freed room."""
        self.looked_at: float = -NEVER
        """Time at which all holders were looked at, and had nothing to give back (monotonic seconds)."""

    def room_of(self, party: Party) -> PartyRoom:
        """Return the room of a connection. It is created at the first call, and has a share then."""
        room = self.parties.get(party.name)
        if room is None:
            room = PartyRoom(party.user)
            self.parties[party.name] = room
            self.users[party.user] = self.users.get(party.user, 0) + 1
        return room

    def shares(self, party: Party) -> i64:
        """Return into how many shares the room is divided for a connection; 1 if no other one wants any."""
        if len(self.parties) <= 1:
            return 1 if not self.parties or party.name in self.parties else 2
        others = self.users.get(party.user, 0)
        is_new = party.name not in self.parties
        users: i64 = len(self.users) + (1 if others == 0 else 0)
        return users * (others + (1 if is_new else 0))

    def want(self, party: Party, now: float) -> None:
        """Give a connection a share, because it has to wait."""
        if len(self.parties) >= PARTIES_MAX and party.name not in self.parties:
            self.end_wants(NEVER)
        self.room_of(party).wanted_at = now

    def end_wants(self, now: float) -> None:
        """Forget connections without room that have not had to wait for long."""
        for name, room in list(self.parties.items()):
            if room.messages == 0 and now > room.wanted_at + WANTED_S:
                self.forget(name, room)

    def forget(self, name: str, room: PartyRoom) -> None:
        """Give a connection no share any more."""
        del self.parties[name]
        left = self.users[room.user] - 1
        if left > 0:
            self.users[room.user] = left
        else:
            del self.users[room.user]


class ReservedRoom:
    """The sum over all reservations in one queue."""

    def __init__(self) -> None:
        self.messages: i64 = 0
        self.bytes: i64 = 0
        self._holders: RoomHolders | None = None
        """Those with unused room; None before the first one, as in almost all queues."""

    def holders(self) -> list[RoomHolder]:
        """Return those with unused room."""
        return [] if self._holders is None else list(self._holders.by_identity.values())

    def count(self, holder: RoomHolder, messages: i64, bytes: i64, still: bool) -> None:
        """Count more reserved room, or (negative) less; `still`: the holder has some afterwards."""
        self.messages += messages
        self.bytes += bytes
        holders = self._holders
        if holders is None:
            holders = RoomHolders()
            self._holders = holders
        if still:
            holders.by_identity[id(holder)] = holder
        else:
            holders.by_identity.pop(id(holder), None)
        party = holder.party
        if party is not None:
            room = holders.room_of(party)
            room.messages += messages
            room.bytes += bytes
            if room.messages == 0 and room.wanted_at == -NEVER:
                holders.forget(party.name, room)

    def shared(self) -> Level:
        """Return the room that connections share: all that is neither filled nor promised to a commit."""
        raise NotImplementedError

    def share_left(self, party: Party | None, charge: i64) -> i64:
        """Return how many more messages of this charge a connection may reserve, by its share.

        One at least, if it has none.
        """
        holders = self._holders
        if party is None or holders is None:
            return UNLIMITED
        shares = holders.shares(party)
        if shares == 1:
            return UNLIMITED
        room = self.shared()
        own = holders.parties.get(party.name)
        if own is None or own.messages == 0:
            own = NO_ROOM
        counted = charge - room.uncounted if charge > room.uncounted else 1
        most = _part(room.messages, shares) - own.messages
        in_bytes = (_part(room.bytes, shares) - room.counted(own.messages, own.bytes)) // counted
        most = most if most < in_bytes else in_bytes
        least: i64 = 1 if own is NO_ROOM else 0
        return most if most > least else least

    def recall(self, parties: list[Party], now: float) -> float:
        """Take back idle room, because somebody lacks some; see `GateOwner.recall`."""
        holders = self._holders
        if holders is None or not holders.by_identity:
            return NEVER
        for party in parties:
            holders.want(party, now)
        if holders.to_look_at <= 0:
            if now < holders.looked_at + RECALL_S:
                return holders.looked_at + RECALL_S
            holders.to_look_at = len(holders.by_identity)
            holders.freed = False
        messages, size, room = self.messages, self.bytes, self.shared()
        for holder in list(islice(holders.by_identity.values(), RECALLED_A_TURN)):
            holders.to_look_at -= 1
            if holders.by_identity.pop(id(holder), None) is not None:
                holders.by_identity[id(holder)] = holder  # The next recall looks at it last.
            holder.recall(self._is_beyond_share(holder.party, room), now)
        if self.messages < messages or self.bytes < size:
            holders.freed = True
            return now
        if holders.to_look_at > 0:
            return now
        if not holders.freed:
            holders.looked_at = now
        holders.end_wants(now)
        return now + RECALL_S

    def _is_beyond_share(self, party: Party | None, room: Level) -> bool:
        holders = self._holders
        if party is None or holders is None:
            return False
        shares = holders.shares(party)
        own = holders.parties.get(party.name)
        if shares == 1 or own is None:
            return False
        size = room.counted(own.messages, own.bytes)
        return own.messages > _part(room.messages, shares) or size > _part(room.bytes, shares)

    def fit(self, room: Level, now: float) -> None:
        """Take room back, from each holder the same part, until no more is reserved than this."""
        if self.messages > room.messages:
            self._keep(room.messages, self.messages, now)
        size = room.counted(self.messages, self.bytes)
        if size > room.bytes:
            self._keep(room.bytes, size, now)

    def _keep(self, room: i64, reserved: i64, now: float) -> None:
        if room < 0:
            room = 0
        for holder in self.holders():
            holder.keep_part(int(room), int(reserved), now)


def _part(room: i64, shares: i64) -> i64:
    """Return one share of the room, which may be overfull."""
    return room // shares if room > 0 else 0
