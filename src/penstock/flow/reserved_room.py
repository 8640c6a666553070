"""Room that is reserved in one queue for granted credit: its sum, and its holders, from which idle room is revoked.

Theory of operation. A reservation is a promise to one sender, and must not block other senders. So the room is shared:
first among the users that ask for room, then among the connections of each user (`Party`). A first grant takes no
connection beyond its share. A sender that an open gate cannot admit because of reserved room recalls room (`recall`).
Holders release idle room at once, and room beyond the share of their connection that was never used. Other holders are
examined again soon.

A recall examines a bounded number of holders, the least recently examined first.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.flow.level import UNLIMITED, Level
from penstock.flow.timers import NEVER

RECALL_S: Final = 0.1
"""Seconds between two examinations of holders without idle room. Their use in that time is measured."""
RECALLED_A_TURN: Final = 64
"""Most holders that one recall examines."""
WANTED_S: Final = 10.0
"""Seconds for which a connection that had to wait has a share of the room."""
PARTIES_MAX: Final = 1024
"""Number of connections above which connections without room are forgotten."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Party:
    """One connection that shares room with others."""

    def __init__(self, user: str, name: str) -> None:
        self.user = user
        self.name = name
        """Name of the connection, as in logs and `penstock connections block`."""


@mypyc_attr(allow_interpreted_subclasses=True)
class RoomHolder:
    """A holder of reserved room: the reservation of one sender."""

    party: Party | None
    """Connection of the holder; None shares with nobody."""

    def keep_part(self, room: int, reserved: int, now: float) -> None:
        """Keep `room` of every `reserved` parts of the unused room, rounded down; release the rest."""
        raise NotImplementedError

    def recall(self, beyond_share: bool, now: float) -> None:
        """Release idle room now, and examine the rest soon, because a sender lacks room.

        `beyond_share`: the connection has more than its share, so room that was never used counts as idle.
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
        """Last time (monotonic seconds) at which the connection had to wait for room."""


NO_ROOM: Final = PartyRoom("")
"""Shared room of connections without any; never changed."""


class RoomHolders:
    """The holders with unused room in one queue, and the connections that share it."""

    def __init__(self) -> None:
        self.by_identity: dict[int, RoomHolder] = {}
        self.parties: dict[str, PartyRoom] = {}
        """Connections with room, or waiting for room, by name."""
        self.users: dict[str, i64] = {}
        """Number of those connections, by user."""
        self.to_look_at: i64 = 0
        """Holders that the present recall has not examined yet."""
        self.freed: bool = False
        """True if the present recall has freed room."""
        self.looked_at: float = -NEVER
        """Time (monotonic seconds) at which all holders were examined without finding idle room."""

    def room_of(self, party: Party) -> PartyRoom:
        """Return the room of a connection. The first call creates it, and gives the connection a share."""
        room = self.parties.get(party.name)
        if room is None:
            room = PartyRoom(party.user)
            self.parties[party.name] = room
            self.users[party.user] = self.users.get(party.user, 0) + 1
        return room

    def shares(self, party: Party) -> i64:
        """Return the number of shares of the room for a connection; 1 if no other connection wants room."""
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
        """Remove a connection's share."""
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
        """Holders with unused room; None before the first, as in almost all queues."""

    def holders(self) -> list[RoomHolder]:
        """Return the holders with unused room."""
        return [] if self._holders is None else list(self._holders.by_identity.values())

    def count(self, holder: RoomHolder, messages: i64, bytes: i64, still: bool) -> None:
        """Count more reserved room, or (negative) less; `still`: the holder has room afterwards."""
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
        """Return the room that connections share: neither filled nor promised to a commit."""
        raise NotImplementedError

    def share_left(self, party: Party | None, charge: i64) -> i64:
        """Return how many more messages of this charge a connection may reserve, by its share.

        At least one if the connection has no room.
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
        """Revoke idle room, because a sender lacks room; see `GateOwner.recall`."""
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
                holders.by_identity[id(holder)] = holder  # The next recall examines this holder last.
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
        """Revoke room from all holders in proportion, until no more than this is reserved."""
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
