"""Dead-letter headers of AMQP 0-9-1, as in RabbitMQ 4: x-death, x-first-death-* and x-last-death-*.

The rest of the message stays unchanged, except its expiration: it is recorded in x-death and removed, or the message
would expire again in the next queue.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from librt.strings import read_i64_be
from mypy_extensions import i64

from penstock.core.publish.death_record import DeathHeaderCodec, DeathRecord
from penstock.management.control_api import ControlApi
from penstock.protocols.amqp091.cc_bcc import CC, copies_of
from penstock.protocols.amqp091.content_frames import properties_of
from penstock.protocols.amqp091.header_rewriter import EXPIRATION, HeaderRewriter
from penstock.wire.amqp091.codec import CodecError
from penstock.wire.amqp091.field_reader import EPOCH, FieldReader

DEATHS_KEPT: Final = 64
"""Most entries of x-death: one per queue and reason; the oldest beyond that are dropped."""

COUNTED_MAX: Final = 1 << 62
"""Count from which an entry cannot stem from a broker."""

WRITTEN: Final = ("count", "reason", "queue", "time", "exchange", "routing-keys", "original-expiration")
"""Fields of an entry (rabbit_dead_letter.erl)."""

Entry = dict[str, object]


class XDeathCodec(DeathHeaderCodec):
    """Codec of the dead-letter headers; `control` has the clock."""

    def __init__(self, control: ControlApi) -> None:
        self.control = control

    def write(self, content: bytes, death: DeathRecord) -> bytes | None:
        """See `DeathHeaderCodec.write`.

        Returns None if the headers cannot be read or the result would not fit into a frame.
        """
        try:
            message = HeaderRewriter(content)
            deaths = _deaths(message.headers)
        except CodecError:
            return None
        octets = message.properties[EXPIRATION]
        expiration = octets[1:].decode(errors="replace") if octets else None
        past = _take(deaths, death.queue, death.reason)
        deaths.insert(0, self._begun(death, expiration, copies_of(content)) if past is None else _once_more(past))
        ours: Entry = {f"x-last-death-{what}": value for what, value in _entry_fields(death).items()}
        if "x-first-death-reason" not in message.headers:
            ours = {f"x-first-death-{what}": value for what, value in _entry_fields(death).items()} | ours
        if death.rerouted:
            message.headers.pop(CC, None)
        message.properties[EXPIRATION] = b""
        return message.with_headers({"x-death": list(deaths[:DEATHS_KEPT]), **ours})

    def deaths(self, content: bytes) -> list[tuple[str, str]]:
        """See `DeathHeaderCodec.deaths`."""
        try:
            found = _deaths(HeaderRewriter(content).headers)
        except CodecError:
            return []
        return [(str(entry.get("queue")), str(entry.get("reason"))) for entry in found]

    def body_bytes(self, content: bytes) -> i64:
        """See `DeathHeaderCodec.body_bytes`; the size comes from the header (section 4.2.6.1)."""
        return read_i64_be(content, 11)

    def headers(self, content: bytes) -> Entry:
        """See `DeathHeaderCodec.headers`."""
        try:
            return properties_of(content).headers or {}
        except CodecError:
            return {}

    def copies(self, content: bytes) -> list[str]:
        """See `DeathHeaderCodec.copies`."""
        return copies_of(content)

    def _begun(self, death: DeathRecord, expiration: str | None, copies: list[str]) -> Entry:
        seconds = int(death.now + self.control.wall_offset)
        entry: Entry = {
            "count": 1,
            "reason": death.reason,
            "queue": death.queue,
            "time": EPOCH + timedelta(seconds=seconds),
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


def _deaths(headers: dict[str, bytes]) -> list[Entry]:
    """Return the valid entries of x-death, one for each queue and reason.

    Invalid entries stem from a client and are dropped.
    """
    octets = headers.get("x-death")
    if octets is None:
        return []
    reader = FieldReader(octets)
    reader.shortstr()
    value = reader.value(1)
    found: list[Entry] = []
    for entry in value if isinstance(value, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("queue"), str) and isinstance(entry.get("reason"), str):
            found.append({name: entry[name] for name in WRITTEN if name in entry and _as_written(name, entry[name])})
    return _grouped(found)


def _grouped(entries: list[Entry]) -> list[Entry]:
    """Return the first entry of each queue and reason.

    RabbitMQ before 3.5.2 wrote one without a count for each death.
    """
    grouped: dict[tuple[object, object], Entry] = {}
    times: dict[tuple[object, object], int] = {}
    for entry in entries:
        key = (entry["queue"], entry["reason"])
        grouped.setdefault(key, entry)
        times[key] = times.get(key, 0) + 1
    return [entry if "count" in entry else {"count": times[key], **entry} for key, entry in grouped.items()]


def _as_written(name: str, value: object) -> bool:
    """Tell whether a field of an entry has the type that a broker writes."""
    if name == "count":
        return isinstance(value, int) and not isinstance(value, bool) and 0 < value < COUNTED_MAX
    if name == "time":
        return isinstance(value, datetime)
    if name == "routing-keys":
        return isinstance(value, list) and all(isinstance(key, str) for key in value)
    return isinstance(value, str)
