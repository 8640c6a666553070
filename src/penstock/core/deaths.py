"""Deaths of messages: the record on a dead letter, and its headers as in RabbitMQ 4.

A message format reads the headers of a message and writes them back (`MessageFormat.with_death`). The message's
expiration is recorded in x-death and removed, or the message would expire again in the next queue.

Only the broker's own entries count (`Envelope.died`): a publisher may copy the headers of a message that it received,
or invent headers. Such headers pass as data, and the first death in this broker replaces them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from penstock.content.death_entries import Entry

REJECTED: Final = "rejected"
EXPIRED: Final = "expired"
MAXLEN: Final = "maxlen"
DELIVERY_LIMIT: Final = "delivery_limit"
"""Reasons, as RabbitMQ writes them: rejected, expired, maxlen, delivery_limit."""


class DeathRecord:
    """The circumstances of a message's death."""

    __slots__ = ("queue", "reason", "exchange", "routing_key", "time", "rerouted", "again")

    def __init__(
        self,
        queue: str,
        reason: str,
        exchange: str,
        routing_key: str,
        time: float,
        rerouted: bool = False,
        again: bool = False,
    ) -> None:
        self.queue = queue
        self.reason = reason
        self.exchange = exchange
        """Exchange and routing keys of the publish."""
        self.routing_key = routing_key
        self.time = time
        """Time of death: seconds since the epoch."""
        self.rerouted = rerouted
        """True if the queue sets a routing key for dead letters: additional keys in the message (CC) are removed."""
        self.again = again
        """True if the message has died before: its death headers were written by the broker."""


DEATHS_KEPT: Final = 64
"""Most entries of x-death: one per queue and reason; beyond that the oldest entries are dropped."""

SUMMARY_HEADERS: Final[tuple[str, ...]] = tuple(
    f"x-{which}-death-{what}" for which in ("first", "last") for what in ("exchange", "queue", "reason")
)
"""Headers about the first and the last death, which a dead letter has beside x-death."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def added_headers(
    deaths: list[Entry], death: DeathRecord, expiration: str | None, copies: list[str], died_before: bool
) -> dict[str, object]:
    """Return the headers to add for a death.

    `deaths` are the entries so far (a publisher's if this is the first death), `copies` the keys in the CC header.
    `died_before`: the message has x-first-death-*.
    """
    if not death.again:
        deaths, died_before = [], False
    past = _take(deaths, death.queue, death.reason)
    deaths.insert(0, _begun(death, expiration, copies) if past is None else _once_more(past))
    ours: Entry = {f"x-last-death-{what}": value for what, value in _entry_fields(death).items()}
    if not died_before:
        ours = {f"x-first-death-{what}": value for what, value in _entry_fields(death).items()} | ours
    return {"x-death": list(deaths[:DEATHS_KEPT]), **ours}


def pairs_of(deaths: list[Entry]) -> list[tuple[str, str]]:
    """Return queue and reason of each entry."""
    return [(str(entry.get("queue")), str(entry.get("reason"))) for entry in deaths]


def _begun(death: DeathRecord, expiration: str | None, copies: list[str]) -> Entry:
    entry: Entry = {
        "count": 1,
        "reason": death.reason,
        "queue": death.queue,
        "time": _EPOCH + timedelta(seconds=int(death.time)),
        "exchange": death.exchange,
        "routing-keys": [death.routing_key, *copies],
    }
    return entry if expiration is None else {**entry, "original-expiration": expiration}


def _entry_fields(death: DeathRecord) -> Entry:
    return {"exchange": death.exchange, "queue": death.queue, "reason": death.reason}


def _once_more(entry: Entry) -> Entry:
    count = entry["count"]
    assert isinstance(count, int)
    return {**entry, "count": count + 1}


def _take(deaths: list[Entry], queue: str, reason: str) -> Entry | None:
    """Remove and return the entry of a queue and reason."""
    for at, entry in enumerate(deaths):
        if entry.get("queue") == queue and entry.get("reason") == reason:
            return deaths.pop(at)
    return None
