"""What is said about things other than queues, resolved: the limits of an address, virtual host, user, connection,
producer, or of the broker."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.core.settings.thresholds import Defaults, check_percents, number_or_none, resolve_unit
from penstock.errors import PreconditionFailed
from penstock.flow.level import UNLIMITED, Level, Thresholds
from penstock.setting_names import SettingValue

DISK_FREE_BYTES: Final = 50_000_000
"""Bytes of its file system that the store leaves free where nobody says anything: RabbitMQ's disk_free_limit."""
UNDERFULL_PERCENT: Final = 90
"""Of disk-overfull: disk-underfull where nobody says anything."""


class DiskLimits:
    """What may be stored, and what must be left free; UNLIMITED is no quota."""

    def __init__(self) -> None:
        self.overfull: i64 = UNLIMITED
        """Bytes stored above which no more come in."""
        self.underfull: i64 = UNLIMITED
        """Bytes at or below which they do again."""
        self.free_bytes: i64 = 0
        """Bytes of the file system that must be left free."""
        self.free_percent: float = 0.0
        """The same as a share of the file system, where that is how it was said."""

    def has_room(self) -> bool:
        """Return whether anything must be left free."""
        return self.free_bytes > 0 or self.free_percent > 0.0


class Limits:
    """One thing's resolved limits; None is no limit."""

    def __init__(self) -> None:
        self.thresholds: Thresholds | None = None
        """Of what it holds: an address, the queues of a virtual host, or all of the broker's (memory, in bytes; where
        somebody says that there is no limit, all of them are UNLIMITED)."""
        self.rate_messages: float | None = None
        """Messages a second."""
        self.rate_bytes: float | None = None
        """Bytes (charges) a second."""
        self.burst_messages: float = 1.0
        """Messages at once; a second's worth where only the rate was given, and never less than one."""
        self.burst_bytes: float = 1.0
        """Bytes at once; a second's worth where only the rate was given."""
        self.disk = DiskLimits()
        """Of what it stores: the queues of a virtual host, the broker."""
        self.weight: int = 1
        """Share of the turns, 1 to 100 (users)."""
        self.hold_deadline_s: float | None = None
        """Seconds, 0 for ever; None where nothing was said (virtual hosts, the broker)."""

    def unlimited(self) -> bool:
        """Return whether nothing is limited."""
        return self.thresholds is None and self.rate_messages is None and self.rate_bytes is None


def limits(thing: str, words: dict[str, SettingValue], defaults: Defaults, machine_bytes: int) -> Limits:
    """Resolve what is said about a thing. Raises PreconditionFailed (406) for what cannot be meant together.

    `machine_bytes` is the memory of the machine, for shares of it.
    """
    found = Limits()
    if "memory-capacity" in words or "memory-stop" in words or "memory-resume" in words:
        found.thresholds = _memory(thing, words, defaults, machine_bytes)
    else:
        found.thresholds = _thresholds(thing, words, defaults)
    found.disk = _disk(thing, words)
    found.rate_messages, found.burst_messages = _rate(words, "messages")
    found.rate_bytes, found.burst_bytes = _rate(words, "bytes")
    weight = words.get("weight")
    if weight is not None:
        found.weight = weight.number
    deadline = words.get("hold-deadline")
    if deadline is not None:
        found.hold_deadline_s = max(deadline.real, 0.0)
    return found


def _thresholds(thing: str, words: dict[str, SettingValue], defaults: Defaults) -> Thresholds | None:
    check_percents(thing, words)
    messages = resolve_unit(thing, words, "messages", number_or_none(words.get("capacity-messages")), defaults, True)
    size = resolve_unit(thing, words, "bytes", number_or_none(words.get("capacity-bytes")), defaults, True)
    found = Thresholds(
        Level(messages.capacity, size.capacity), Level(messages.stop, size.stop), Level(messages.resume, size.resume)
    )
    none = found.capacity.covers(UNLIMITED, UNLIMITED) and found.stop.covers(UNLIMITED, UNLIMITED)
    return None if none else found


def _memory(thing: str, words: dict[str, SettingValue], defaults: Defaults, machine_bytes: int) -> Thresholds | None:
    """The memory's thresholds are like a queue's, in bytes; only their names differ."""
    plain: dict[str, SettingValue] = {name: word for name, word in words.items() if name.endswith("-percent")}
    for mark in ("capacity", "stop", "resume"):
        word = words.get(f"memory-{mark}")
        if word is not None:
            plain[f"{mark}-bytes"] = _in_bytes(thing, word, machine_bytes)
    capacity = words.get("memory-capacity")
    if capacity is not None and capacity.none:  # Said, and not left to what is done where nobody says anything.
        return Thresholds(Level(), Level(), Level())
    return _thresholds(thing, plain, defaults)


def _disk(thing: str, words: dict[str, SettingValue]) -> DiskLimits:
    found = DiskLimits()
    overfull, underfull = words.get("disk-overfull"), words.get("disk-underfull")
    if overfull is not None and not overfull.none:
        found.overfull = overfull.number
        found.underfull = overfull.number * UNDERFULL_PERCENT // 100
        if underfull is not None and not underfull.none:
            if underfull.number > overfull.number:
                raise PreconditionFailed(
                    f"{thing}: {underfull.describe()} is above {overfull.describe()}; "
                    "its gate would close and open at once"
                )
            found.underfull = underfull.number
    elif underfull is not None and not underfull.none:
        raise PreconditionFailed(f"{thing}: {underfull.describe()} needs a disk-overfull, and there is none")
    free = words.get("min-disk-free")
    if free is None:
        found.free_bytes = DISK_FREE_BYTES
    elif free.text == "%":
        found.free_percent = free.real
    elif not free.none:
        found.free_bytes = free.number
    return found


def _in_bytes(thing: str, word: SettingValue, machine_bytes: int) -> SettingValue:
    if word.text != "%":
        return word
    if machine_bytes <= 0:
        raise PreconditionFailed(
            f"{thing}: {word.describe()}: this machine does not say how much memory it has; use bytes"
        )
    return word.with_number(machine_bytes * round(word.real * 100) // 10_000)


def _rate(words: dict[str, SettingValue], unit: str) -> tuple[float | None, float]:
    rate, burst = words.get("rate-" + unit), words.get("burst-" + unit)
    per_s = None if rate is None or rate.none else rate.real
    if burst is not None:
        return per_s, burst.real
    return per_s, 1.0 if per_s is None else max(per_s, 1.0)
