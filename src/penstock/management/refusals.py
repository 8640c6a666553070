"""Refused publishes and requests: the last refusals of each connection, and their log lines.

A nack carries no reason. The reason is stored for `penstock why --connection` and logged: at most one line a second for
each channel, gate and cause, with the count (PST-1015).
"""

from __future__ import annotations

from typing import Final

from penstock.connections.log_line import LogLine
from penstock.core.effects import PublishRefused
from penstock.errors import BrokerError
from penstock.flow.gate import DELETED, HOLD_BOUND
from penstock.logs.ids import REQUEST_REFUSED
from penstock.management.gate_lines import gate_fields

KEPT: Final = 10
"""Most refusals stored per connection; those of one channel with one cause are one entry with a count."""
TOLD: Final = 100
"""Most log lines a second; further refusals are counted in one more line."""


class Refusal:
    """Refused publishes of one channel with one cause at one gate; `reason` is the reason of the last refusal."""

    __slots__ = ("producer", "fields", "cause", "reason", "count", "bytes", "now")

    def __init__(self, effect: PublishRefused) -> None:
        self.producer = effect.producer.name
        self.fields = gate_fields(effect.gate)
        self.cause = effect.cause
        self.reason = ""
        self.count: int = 0
        self.bytes: int = 0
        self.now: float = 0.0
        """Time of the last of them, in monotonic seconds."""

    def add(self, effect: PublishRefused, reason: str, now: float) -> None:
        """Add refusals with the same cause."""
        self.reason = reason
        self.count += int(effect.messages)
        self.bytes += int(effect.bytes)
        self.now = now

    def sentence(self, now: float) -> str:
        """Return the refusal in one sentence."""
        were = "publish was" if self.count == 1 else "publishes were"
        when = f"{now - self.now:.1f} s ago" if self.count == 1 else f"the last {now - self.now:.1f} s ago"
        return f"{self.producer}: {self.count:,} {were} refused ({self.bytes:,} bytes), {when}: {self.reason}"

    def as_dict(self, now: float) -> dict[str, object]:
        """Return the refusal as plain data."""
        return {
            "producer": self.producer,
            **self.fields,
            "cause": self.cause,
            "reason": self.reason,
            "count": self.count,
            "count_bytes": self.bytes,
            "seconds_ago": now - self.now,
        }

    def log_line(self) -> LogLine:
        """Return the log line (PST-1015)."""
        text = f"Publishes Refused : {self.count:,} messages, {self.bytes:,} bytes : {self.reason}"
        fields = {"id": "PST-1015", "producer": self.producer, **self.fields, "cause": self.cause, "count": self.count}
        return LogLine(f"[{self.producer}] PST-1015 : {text}", fields)


class RefusedPublishes:
    """Refused publishes of one broker."""

    def __init__(self) -> None:
        self._last: dict[int, dict[str, Refusal]] = {}
        """Refusals by connection number, and by channel, gate and cause; the latest last."""
        self._unreported: dict[str, Refusal] = {}
        self._more: int = 0
        """Publishes refused since the last lines that found no room in `_unreported`."""

    def add(self, effect: PublishRefused, connection: int | None, now: float) -> None:
        """Record a refusal; `connection` is the number of the publisher's connection, None without a connection."""
        key = f"{effect.producer.name} {id(effect.gate)} {effect.cause}"
        reason = reason_of(effect)
        if key in self._unreported or len(self._unreported) < TOLD:
            self._unreported.setdefault(key, Refusal(effect)).add(effect, reason, now)
        else:
            self._more += int(effect.messages)
        if connection is not None:
            last = self._last.setdefault(connection, {})
            refusal = last.pop(key, None) or Refusal(effect)
            refusal.add(effect, reason, now)
            last[key] = refusal
            if len(last) > KEPT:
                del last[next(iter(last))]

    def of(self, connection: int) -> list[Refusal]:
        """Return the last refusals of a connection, the latest first."""
        return list(reversed(self._last.get(connection, {}).values()))

    def forget(self, connection: int) -> None:
        """Remove a closed connection."""
        self._last.pop(connection, None)

    def take(self) -> list[LogLine]:
        """Take the log lines of this second."""
        lines = [refusal.log_line() for refusal in self._unreported.values()]
        if self._more:
            text = f"{self._more:,} more publishes were refused in this second"
            lines.append(LogLine(text, {"id": "PST-1015", "count": self._more}))
        self._unreported.clear()
        self._more = 0
        return lines


def reason_of(effect: PublishRefused) -> str:
    """Return the reason why publishes were refused."""
    if effect.why:
        return effect.why
    if effect.cause == DELETED:
        return f"queue '{effect.gate.name}' was deleted"
    if effect.cause == HOLD_BOUND:
        return f"its connection has reached its hold budget; {effect.gate.describe_refusal()}"
    return effect.gate.describe_overflow() or effect.gate.describe_refusal()


AGAIN_S: Final = 60.0
"""Seconds between two lines with the count of one connection and error."""


class Repeated:
    """Refusals of one connection with one error since the last log line about these."""

    __slots__ = ("subject", "text", "count", "logged_at")

    def __init__(self, now: float) -> None:
        self.subject = ""
        self.text = ""
        self.count: int = 0
        self.logged_at: float = now


class RefusedRequests:
    """Refused requests of the connections of one broker. A connection has at most one entry for each error code."""

    def __init__(self) -> None:
        self._known: dict[int, dict[str, Repeated]] = {}
        """By connection number and error."""
        self._counting: dict[int, None] = {}
        """Connections with refusals that have no line yet."""

    def add(self, connection: int, subject: str, error: BrokerError, now: float) -> LogLine | None:
        """Add a refusal; return its log line if the refusal is the connection's first with this error.

        `subject` is the channel, session or link in the log.
        """
        known = self._known.setdefault(connection, {})
        repeated = known.get(error.reply)
        if repeated is None:
            known[error.reply] = Repeated(now)
            return _line(subject, error.reply, str(error), 0)
        repeated.subject = subject
        repeated.text = str(error)
        repeated.count += 1
        self._counting[connection] = None
        return None

    def take(self, now: float) -> list[LogLine]:
        """Take the lines of refusals that were counted for a minute."""
        lines: list[LogLine] = []
        for connection in list(self._counting):
            waiting = False
            for reply, repeated in self._known[connection].items():
                if repeated.count and now - repeated.logged_at >= AGAIN_S:
                    lines.append(_counted(reply, repeated))
                    repeated.logged_at = now
                waiting = waiting or repeated.count > 0
            if not waiting:
                del self._counting[connection]
        return lines

    def forget(self, connection: int) -> list[LogLine]:
        """Remove a closed connection; return the lines of its counted refusals."""
        self._counting.pop(connection, None)
        known = self._known.pop(connection, None)
        if known is None:
            return []
        return [_counted(reply, repeated) for reply, repeated in known.items() if repeated.count]


def _counted(reply: str, repeated: Repeated) -> LogLine:
    line = _line(repeated.subject, reply, repeated.text, repeated.count)
    repeated.count = 0
    return line


def _line(subject: str, reply: str, text: str, more: int) -> LogLine:
    again = f" (the last of {more:,} since the last such line)" if more else ""
    fields: dict[str, object] = {"id": REQUEST_REFUSED, "subject": subject, "error": reply}
    if more:
        fields["count"] = more
    return LogLine(f"[{subject}] request refused: {text}{again}", fields)
