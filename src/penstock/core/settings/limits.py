"""Resolved limits of addresses, virtual hosts, users, connections, producers and the broker."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.core.settings.thresholds import Defaults, check_percents, number_or_none, resolve_unit, uncounted
from penstock.errors import PreconditionFailed
from penstock.flow.level import UNLIMITED, Level, Thresholds
from penstock.flow.timers import NEVER
from penstock.flow.token_bucket import smooth
from penstock.setting_names import WITHOUT_BURST, SettingValue

DISK_FREE_BYTES: Final = 50_000_000
"""Default free bytes on the store's file system: RabbitMQ's disk_free_limit."""
UNDERFULL_PERCENT: Final = 90
"""Default of disk-underfull, in percent of disk-overfull."""


class DiskLimits:
    """Limits of stored bytes and of free disk space; UNLIMITED is no quota."""

    def __init__(self) -> None:
        self.overfull: i64 = UNLIMITED
        """Stored bytes above which publishes are blocked."""
        self.underfull: i64 = UNLIMITED
        """Stored bytes at or below which they are unblocked."""
        self.free_bytes: i64 = 0
        """Bytes of the file system that must be free."""
        self.free_percent: float = 0.0
        """The same as a share of the file system, if it was set so."""

    def has_room(self) -> bool:
        """Return whether free space is required."""
        return self.free_bytes > 0 or self.free_percent > 0.0


class Limits:
    """The resolved limits of one object; None is no limit."""

    def __init__(self) -> None:
        self.thresholds: Thresholds | None = None
        """Thresholds of its contents: an address, the queues of a virtual host, or the broker's memory (bytes).

        All of them are UNLIMITED if memory is set to have no limit.
        """
        self.rate_messages: float | None = None
        """Messages a second."""
        self.refill_messages: float = NEVER
        """Tokens a second for them: the rate, or without a burst less, by what `smooth` gives to the burst."""
        self.rate_bytes: float | None = None
        """Bytes (charges) a second."""
        self.burst_messages: float = NEVER
        """Messages at once; by default one, and what a late timer may not lose (`smooth`). Infinite without a rate."""
        self.burst_bytes: float = NEVER
        """Bytes at once; by default a second's worth. Infinite without a rate."""
        self.disk = DiskLimits()
        """Limits of its stored bytes: the queues of a virtual host, the broker."""
        self.weight: int = 1
        """Share of the turns, 1 to 100 (users)."""
        self.hold_deadline_s: float | None = None
        """Seconds, 0 for no deadline; None if not set (virtual hosts, the broker)."""

    def unlimited(self) -> bool:
        """Return whether nothing is limited."""
        return self.thresholds is None and self.rate_messages is None and self.rate_bytes is None

    def lowered(self, own: Limits | None) -> Limits:
        """Return the rates of these limits and of a client's own: the lower of each, and the smaller burst."""
        if own is None:
            return self
        found = Limits()
        found.rate_messages = _lower(self.rate_messages, own.rate_messages)
        found.refill_messages = min(self.refill_messages, own.refill_messages)
        found.burst_messages = min(self.burst_messages, own.burst_messages)
        found.rate_bytes = _lower(self.rate_bytes, own.rate_bytes)
        found.burst_bytes = min(self.burst_bytes, own.burst_bytes)
        return found


def rates(subject: str, words: dict[str, SettingValue]) -> Limits | None:
    """Resolve the rates that a client sets for itself; None for none. Raises PreconditionFailed (406) as `limits`."""
    for unit in ("messages", "bytes"):
        if f"burst-{unit}" in words and f"rate-{unit}" not in words:
            raise PreconditionFailed(f"{subject}: burst-{unit} has no effect without rate-{unit}; set that as well")
    rate = words.get("rate-messages")
    if "burst-messages" in words and rate is not None and rate.alias in WITHOUT_BURST:
        raise PreconditionFailed(f"{subject}: {rate.describe()} has no burst; set rate-messages for one with a burst")
    found = Limits()
    _set_rates(found, words)
    return None if found.rate_messages is None and found.rate_bytes is None else found


def limits(subject: str, words: dict[str, SettingValue], defaults: Defaults, machine_bytes: int) -> Limits:
    """Resolve the limits of an object. Raises PreconditionFailed (406) for contradictory settings.

    `machine_bytes` is the memory of the host, for percentages of it.
    """
    found = Limits()
    if "memory-capacity" in words or "memory-stop" in words or "memory-resume" in words:
        found.thresholds = _memory(subject, words, defaults, machine_bytes)
    else:
        found.thresholds = _thresholds(subject, words, defaults)
    found.disk = _disk(subject, words)
    _set_rates(found, words)
    weight = words.get("weight")
    if weight is not None:
        found.weight = weight.number
    deadline = words.get("hold-deadline")
    if deadline is not None:
        found.hold_deadline_s = max(deadline.real, 0.0)
    return found


def _thresholds(subject: str, words: dict[str, SettingValue], defaults: Defaults) -> Thresholds | None:
    check_percents(subject, words)
    messages = resolve_unit(subject, words, "messages", number_or_none(words.get("capacity-messages")), defaults, True)
    size = resolve_unit(subject, words, "bytes", number_or_none(words.get("capacity-bytes")), defaults, True)
    beside = uncounted(words)
    found = Thresholds(
        Level(messages.capacity, size.capacity, beside),
        Level(messages.stop, size.stop, beside),
        Level(messages.resume, size.resume, beside),
    )
    return None if found.capacity.unlimited() and found.stop.unlimited() else found


def _memory(subject: str, words: dict[str, SettingValue], defaults: Defaults, machine_bytes: int) -> Thresholds | None:
    """Resolve the memory thresholds, which are like a queue's, in bytes, with other names."""
    plain: dict[str, SettingValue] = {name: word for name, word in words.items() if name.endswith("-percent")}
    for mark in ("capacity", "stop", "resume"):
        word = words.get(f"memory-{mark}")
        if word is not None:
            plain[f"{mark}-bytes"] = _in_bytes(subject, word, machine_bytes)
    capacity = words.get("memory-capacity")
    if capacity is not None and capacity.none:  # Set explicitly to none, unlike the default.
        return Thresholds(Level(), Level(), Level())
    return _thresholds(subject, plain, defaults)


def _disk(subject: str, words: dict[str, SettingValue]) -> DiskLimits:
    found = DiskLimits()
    overfull, underfull = words.get("disk-overfull"), words.get("disk-underfull")
    if overfull is not None and not overfull.none:
        found.overfull = overfull.number
        found.underfull = overfull.number * UNDERFULL_PERCENT // 100
        if underfull is not None and not underfull.none:
            if underfull.number > overfull.number:
                raise PreconditionFailed(
                    f"{subject}: {underfull.describe()} is above {overfull.describe()}; "
                    "its gate would close and open at once"
                )
            found.underfull = underfull.number
    elif underfull is not None and not underfull.none:
        raise PreconditionFailed(f"{subject}: {underfull.describe()} needs disk-overfull, which is not set")
    free = words.get("min-disk-free")
    if free is None:
        found.free_bytes = DISK_FREE_BYTES
    elif free.text == "%":
        found.free_percent = free.real
    elif not free.none:
        found.free_bytes = free.number
    return found


def _in_bytes(subject: str, word: SettingValue, machine_bytes: int) -> SettingValue:
    if word.text != "%":
        return word
    if machine_bytes <= 0:
        raise PreconditionFailed(f"{subject}: {word.describe()}: the memory of this machine is unknown; give bytes")
    return word.with_number(machine_bytes * round(word.real * 100) // 10_000)


def _set_rates(found: Limits, words: dict[str, SettingValue]) -> None:
    rate, burst = words.get("rate-messages"), words.get("burst-messages")
    if rate is not None and not rate.none:
        found.rate_messages = rate.real
        found.refill_messages, found.burst_messages = smooth(rate.real)
        if burst is not None and rate.alias not in WITHOUT_BURST:
            found.refill_messages, found.burst_messages = rate.real, burst.real
    rate, burst = words.get("rate-bytes"), words.get("burst-bytes")
    if rate is not None and not rate.none:
        found.rate_bytes = rate.real
        found.burst_bytes = max(rate.real, 1.0) if burst is None else burst.real


def _lower(rate: float | None, own: float | None) -> float | None:
    """Return the lower of two rates, of which None is no limit."""
    if rate is None or own is None:
        return own if rate is None else rate
    return min(rate, own)
