"""Room that is reserved in one amount for granted credit: its sum, and the holders that it is taken back from."""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class RoomHolder:
    """A holder of reserved room: a reservation, or a queue within a shared limit."""

    def keep_part(self, room: int, reserved: int, now: float) -> None:
        """Keep `room` of every `reserved` parts of the unused room, rounded down; give the rest back."""
        raise NotImplementedError


class ReservedRoom:
    """The sum over all reservations in one amount."""

    def __init__(self) -> None:
        self.messages: i64 = 0
        self.bytes: i64 = 0
        self.holders: dict[int, RoomHolder] = {}
        """Those with unused room, by identity."""

    def count(self, holder: RoomHolder, messages: i64, bytes: i64, still: bool) -> None:
        """Count more reserved room, or (negative) less; `still`: the holder has some afterwards."""
        self.messages += messages
        self.bytes += bytes
        if still:
            self.holders[id(holder)] = holder
        else:
            self.holders.pop(id(holder), None)

    def fit(self, messages: i64, bytes: i64, now: float) -> None:
        """Take room back, from each holder the same part, until no more is reserved than this."""
        if self.messages > messages:
            self._keep(messages, self.messages, now)
        if self.bytes > bytes:
            self._keep(bytes, self.bytes, now)

    def _keep(self, room: i64, reserved: i64, now: float) -> None:
        if room < 0:
            room = 0
        for holder in list(self.holders.values()):
            holder.keep_part(int(room), int(reserved), now)
