"""Lane of a publisher, which numbers its messages over all its sessions."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.client.engine.tally import Tally
from penstock.client.engine.terms import PublisherTerms

WINDOW_MAX: Final = 4096
"""Most messages without an outcome in a lane; a publisher with a larger window has no lane."""


class PublisherLane:
    """Lane of one publisher."""

    def __init__(self, producer: str, name: str, epoch: int, is_named: bool) -> None:
        self.producer = producer
        self.name = name
        self.epoch = epoch
        self.is_named = is_named
        """True if the producer's id is a permanent name: the broker stores the mark for a day, otherwise for ten
        minutes.
        """
        self.taken: i64 = 0
        """Number of the last message before the present transport."""
        self.is_begun: bool = False
        """True if the messages without an outcome were sent in the lane."""

    def request(self, window: int) -> dict[str, object]:
        """Return the request for the next session of the lane, with a higher epoch than the last."""
        self.epoch += 1
        named = {"named": True} if self.is_named else {}
        return {"producer": self.producer, "lane": self.name, "epoch": self.epoch, "window": window, **named}


def new_lane(producer: str, terms: PublisherTerms, tally: Tally) -> PublisherLane | None:
    """Return a lane for a publisher; None if its window is too large, or the connection is no producer.

    A named publisher is a producer itself, so its lane is the same in each process.
    """
    if not producer or terms.window > WINDOW_MAX:
        return None
    if terms.name:
        return PublisherLane(terms.name, "1", terms.epoch, True)
    tally.lanes += 1
    return PublisherLane(producer, str(tally.lanes), 0, False)
