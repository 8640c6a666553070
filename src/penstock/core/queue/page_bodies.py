"""Bodies of large messages whose contents are only in pages on the disk: they live as long as their page."""

from __future__ import annotations

from penstock.core.large_bodies import LargeBodies, LargeBody
from penstock.core.large_content import body_of


class PageBodies:
    """The bodies of one queue's pages, by the number of the page's row."""

    def __init__(self, large: LargeBodies) -> None:
        self._large = large
        self._held: dict[int, list[LargeBody]] = {}

    def hold(self, row: int, content: bytes) -> None:
        """Hold the body of a large message in a page."""
        body = body_of(content)
        if body is not None:
            self._held.setdefault(row, []).append(body)

    def restore(self, row: int, bodies: tuple[int, ...]) -> None:
        """Hold the bodies of a page that was written before a restart, by their numbers."""
        self._held[row] = [self._large.restore(number, 0, []) for number in bodies]

    def release(self, row: int) -> None:
        """Release the bodies of a page whose messages are in memory again, and hold them."""
        self._held.pop(row, None)

    def clear(self) -> None:
        """Release all bodies: no page is left."""
        self._held.clear()
