"""Ledger of the bodies in the store: the handles of each body, and its stored bytes."""

from __future__ import annotations


class BodyLedger:
    """Handles of bodies in the store, by number; a body without a handle is deleted from the store."""

    __slots__ = ("ended", "stored", "_handles")

    def __init__(self) -> None:
        self.stored: dict[int, int] = {}
        """Bytes of each body that are in the store, or in the transaction that is being written."""
        self.ended: list[int] = []
        """Numbers of the `LargeBody` objects that have ended, once for each."""
        self._handles: dict[int, int] = {}

    def add(self, number: int) -> None:
        """Count a new handle."""
        self._handles[number] = self._handles.get(number, 0) + 1

    def holds(self, number: int) -> bool:
        """Return whether a body has a handle."""
        return number in self._handles

    def count(self, number: int, octets: int) -> None:
        """Count bytes of a body in the store."""
        self.stored[number] = self.stored.get(number, 0) + octets

    def is_whole(self, number: int, octets: int) -> bool:
        """Return whether a body of this length is in the store."""
        return self.stored.get(number, 0) == octets

    def take_unreferenced(self) -> list[int]:
        """Take the numbers of bodies whose last handle has ended."""
        if not self.ended:
            return []
        ended = self.ended[:]
        del self.ended[: len(ended)]
        gone: list[int] = []
        for number in ended:
            left = self._handles[number] - 1
            if left:
                self._handles[number] = left
            else:
                del self._handles[number]
                gone.append(number)
        return gone
