"""Lane of a publisher at Penstock, by which a message that is sent again after a reconnect is there once.

The broker numbers the messages of a lane by their order, over all transports. It answers up to which number it has
decided them: that is the mark. A message on the present transport has its number in the window, and `taken` more in
the lane (decision 106).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

if TYPE_CHECKING:
    from penstock.client.engine.connection import Engine
    from penstock.client.engine.terms import PublisherTerms

WINDOW_MAX: Final = 4096
"""Most messages without an outcome that a lane may have; a publisher with a larger window has none."""


class PublisherLane:
    """Lane of one publisher."""

    def __init__(self, producer: str, name: str, epoch: int, is_named: bool) -> None:
        self.producer = producer
        self.name = name
        self.epoch = epoch
        self.is_named = is_named
        """True if the producer's id is a lasting name: the broker keeps the mark for a day, else for ten minutes."""
        self.taken: i64 = 0
        """Number of the last message before the present transport."""
        self.is_begun: bool = False
        """True if the messages without an outcome were sent in the lane."""

    def request(self, window: int) -> dict[str, object]:
        """Return the request for the next session of the lane, with a higher epoch than that before."""
        self.epoch += 1
        named = {"named": True} if self.is_named else {}
        return {"producer": self.producer, "lane": self.name, "epoch": self.epoch, "window": window, **named}


def new_lane(engine: Engine, terms: PublisherTerms) -> PublisherLane | None:
    """Return a lane for a publisher; None if its window is too large for one, or the connection has none.

    A named publisher is a producer of its own. So its lane is the same in each process.
    """
    if not engine.terms.producer or terms.window > WINDOW_MAX:
        return None
    if terms.name:
        return PublisherLane(terms.name, "1", terms.epoch, True)
    engine.lanes += 1
    return PublisherLane(engine.terms.producer, str(engine.lanes), 0, False)
