"""Room that is reserved in one amount for granted credit: its sum, and the holders that it is taken back from."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.flow.level import Level
from penstock.flow.timers import NEVER

RECALL_S: Final = 0.25
"""Seconds between two recalls of one amount: waiters may find no room thousands of times in that."""


@mypyc_attr(allow_interpreted_subclasses=True)
class RoomHolder:
    """A holder of reserved room: a reservation, or a queue within a shared limit."""

    def keep_part(self, room: int, reserved: int, now: float) -> None:
        """Keep `room` of every `reserved` parts of the unused room, rounded down; give the rest back."""
        raise NotImplementedError

    def recall(self, now: float) -> None:
        """Give room back soon that is not used: the first of those that wait lacks room."""
        raise NotImplementedError


class RoomHolders:
    """The holders with unused room in one amount."""

    def __init__(self) -> None:
        self.by_identity: dict[int, RoomHolder] = {}
        self.recalled_at: float = -NEVER
        """Time of the last recall: monotonic seconds."""


class ReservedRoom:
    """The sum over all reservations in one amount."""

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

    def recall(self, now: float) -> bool:
        """Ask all holders to give back soon what they do not use; returns False if the last time was just before."""
        holders = self._holders
        if holders is not None and holders.by_identity:
            if now < holders.recalled_at + RECALL_S:
                return False
            holders.recalled_at = now
            for holder in self.holders():
                holder.recall(now)
        return True

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
