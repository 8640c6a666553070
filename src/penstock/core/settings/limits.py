"""Resolved limits: capacity, stop and resume of queues and others, and rates, weights and disk limits.

With a capacity alone, stop is 80 % and resume 70 % of it (Qpid C++'s published defaults), stop rounded half up, resume
truncated. 20 % of a small capacity would leave no room for the messages in flight when the gate closes, so the stop is
lower there (decision 32). Explicit settings take precedence over defaults, and defaults are adjusted to explicit
settings: no declaration fails because of a default. Explicit settings that contradict each other are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from mypy_extensions import i64

from penstock.errors import PreconditionFailed
from penstock.flow.level import OVERHEAD, UNLIMITED, Level, Thresholds
from penstock.flow.timers import NEVER
from penstock.flow.token_bucket import smooth
from penstock.settings.table import (
    CAPACITY_BYTES,
    FOREIGN_BYTES,
    HOLD_DEADLINE_S,
    JAVAS_CAPACITY,
    MARKS_IN_BYTES,
    OPENS_BELOW,
    RESUME_PERCENT,
    STOP_PERCENT,
    WITHOUT_BURST,
    SettingValue,
)

WINDOW: Final[dict[str, int]] = {"messages": 10, "bytes": 16 * 1024}
"""Messages in flight of a publisher: room left above a default stop, within half of the capacity."""
QPIDS: Final = ("qpid.", "default-queue-limit")
"""Beginnings of Qpid C++'s names of capacities and stops."""
DEFAULT_RANK: Final = 1 << 20
"""Values of this rank and above are defaults (of the virtual host, of the broker) for many queues."""


@dataclass
class Defaults:
    """The broker's default settings."""

    capacity_bytes: int = CAPACITY_BYTES
    stop_percent: float = STOP_PERCENT
    resume_percent: float = RESUME_PERCENT
    hold_deadline_s: float = HOLD_DEADLINE_S
    """Seconds that a publish may be held; 0 for no deadline (Qpid and Artemis)."""

    def hold_deadline_ms(self) -> int:
        """Return the hold deadline in milliseconds."""
        return round(self.hold_deadline_s * 1000)


class UnitThresholds(NamedTuple):
    """Thresholds in one unit; UNLIMITED means no limit."""

    capacity: int
    stop: int
    resume: int


def resolve_thresholds(
    subject: str,
    values: dict[str, SettingValue],
    capacity_bytes: int | None,
    defaults: Defaults,
    wanted: bool,
    all_counts: bool = False,
    length: int = UNLIMITED,
) -> Thresholds:
    """Resolve the thresholds in both units, of a capacity in bytes. Raises as `resolve_unit`.

    With `all_counts` the whole charge counts, because queues that page have a limit of memory. `length` is the most
    ready messages by RabbitMQ's names.
    """
    messages = resolve_unit(
        subject, values, "messages", number_or_none(values.get("capacity-messages")), defaults, wanted, length
    )
    size = resolve_unit(subject, values, "bytes", capacity_bytes, defaults, wanted)
    beside = 0 if all_counts else uncounted(values)
    return Thresholds(
        Level(messages.capacity, size.capacity, beside),
        Level(messages.stop, size.stop, beside),
        Level(messages.resume, size.resume, beside),
    )


def is_explicit(value: SettingValue | None) -> bool:
    """Return whether the value was set for this object, or a pattern that matches it, and is no default."""
    return value is not None and value.rank < DEFAULT_RANK


def number_or_none(value: SettingValue | None) -> int | None:
    """Return the number of a value; None if it is absent or `none`."""
    return None if value is None or value.none else value.number


def resolve_unit(
    subject: str,
    values: dict[str, SettingValue],
    unit: str,
    capacity: int | None,
    defaults: Defaults,
    wanted: bool,
    length: int = UNLIMITED,
) -> UnitThresholds:
    """Resolve one unit. `wanted`: thresholds are derived from the capacity if none are given.

    Defaults are not below a `length` that is below the capacity: the length is met first, and acts by its own policy.

    Raises PreconditionFailed (406) with one sentence that names the object, the values, their sources and the rule.
    """
    stop_word = absolute(values, "stop", unit, capacity)
    resume_word = absolute(values, "resume", unit, capacity)
    stop, resume, lowered = UNLIMITED, UNLIMITED, False
    one_mark = has_one_mark(values, unit)
    if stop_word is not None:
        stop = stop_word.number if not stop_word.none else UNLIMITED
    elif capacity is not None and wanted and one_mark:
        stop = max(capacity - 1, 0)
    elif capacity is not None and wanted:
        by_percent = _stop_by_percent(values, capacity, number_or_none(resume_word), defaults)
        stop = _below_a_window(values, unit, capacity, by_percent, number_or_none(resume_word))
        lowered = stop < by_percent
    first = 0
    if stop_word is None and stop != UNLIMITED and not is_explicit(values.get("stop-percent")):
        first = 0 if capacity is None or length >= capacity else length
        stop = max(stop, first)
    if resume_word is not None and not resume_word.none:
        resume = resume_word.number
        if stop == UNLIMITED:
            raise PreconditionFailed(
                f"{subject}: {resume_word.describe()} has no stop threshold to go with; "
                f"give stop-{unit} or capacity-{unit} as well"
            )
    elif stop != UNLIMITED:
        share = percent(values.get("resume-percent"), defaults.resume_percent)
        below = 1 if opens_below(values, unit, stop_word) else 0
        from_stop = capacity is None or share is None or resume_word is not None or one_mark
        resume = max((stop if from_stop else min(stop, cut(capacity or 0, share or 0.0))) - below, 0)
        if lowered and "resume-percent" not in values:
            resume = min(resume, stop * 7 // 8)  # In the ratio of 70 % to 80 %.
        if not is_explicit(values.get("resume-percent")):
            resume = max(resume, min(first, stop))
    if resume > stop:
        raise PreconditionFailed(
            f"{subject}: {_describe(resume_word, f'resume-{unit}', resume)} is above "
            f"{_describe(stop_word or values.get('stop-percent'), f'stop-{unit}', stop)}; "
            "resume must be at or below stop, or producers stay blocked for ever"
        )
    if capacity is not None and stop != UNLIMITED and stop > capacity:
        raise PreconditionFailed(
            f"{subject}: {_describe(stop_word, f'stop-{unit}', stop)} is above the capacity of {capacity} {unit}"
            f"{_other_source(values.get(f'capacity-{unit}'), stop_word)}; stop must be at or below capacity"
        )
    return UnitThresholds(UNLIMITED if capacity is None else capacity, stop, resume)


def percent(value: SettingValue | None, default: float) -> float | None:
    """Return a percentage; None if there is none."""
    if value is None:
        return default
    return None if value.none else value.real


def check_percents(subject: str, values: dict[str, SettingValue]) -> None:
    """Raise PreconditionFailed (406) if a resume percentage is above the stop's; a default is adjusted instead."""
    stop, resume = values.get("stop-percent"), values.get("resume-percent")
    if not is_explicit(stop) or not is_explicit(resume) or stop is None or resume is None:
        return
    if not stop.none and not resume.none and resume.real > stop.real:
        raise PreconditionFailed(
            f"{subject}: {resume.describe()} is above {stop.describe()}; "
            "resume must be at or below stop, or producers stay blocked for ever"
        )


def with_derived_capacity(values: dict[str, SettingValue]) -> dict[str, SettingValue]:
    """Return the settings with the Java broker's capacity as stop and resume, and a capacity a quarter above it.

    In the Java broker the message that exceeds the capacity is admitted, and blocks its producer. A stronger stop or
    resume takes precedence, and a given percentage refers to that broker's capacity.
    """
    value = values.get("capacity-bytes")
    if value is None or value.none or value.alias not in JAVAS_CAPACITY:
        return values
    if not is_explicit(value) and number_or_none(values.get("capacity-messages")) is not None:
        return values  # A default in bytes does not apply together with a capacity in messages.
    result = dict(values)
    above = value.number + max(value.number // 4, WINDOW["bytes"])
    result["capacity-bytes"] = value.with_number(min(above, UNLIMITED - 1))
    stop, resume, share = values.get("stop-bytes"), values.get("resume-bytes"), values.get("resume-percent")
    if stop is None or stop.rank > value.rank:
        stop = value
    result["stop-bytes"] = stop
    if resume is None or resume.none:
        by_share = stop
        if share is not None and is_explicit(share) and not share.none:
            by_share = share.with_number(cut(value.number, share.real))
        result["resume-bytes"] = by_share if by_share.number < stop.number else stop
    return result


def uncounted(values: dict[str, SettingValue]) -> int:
    """Return the bytes of each message that do not count in its limits in bytes.

    With names of other brokers this is the whole overhead. The name of the capacity decides; without a capacity the
    name of the stop, or of the resume.
    """
    for mark in MARKS_IN_BYTES:
        value = values.get(mark)
        if value is not None and (mark != "capacity-bytes" or is_explicit(value) or value.alias in FOREIGN_BYTES):
            return OVERHEAD if value.alias in FOREIGN_BYTES else 0
    return 0


def absolute(values: dict[str, SettingValue], threshold: str, unit: str, capacity: int | None) -> SettingValue | None:
    """Return the threshold given as a number, unless a stronger source gives a percentage."""
    value, share = values.get(f"{threshold}-{unit}"), values.get(f"{threshold}-percent")
    if value is not None and share is not None and capacity is not None and share.rank < value.rank:
        return None
    return value


def _stop_by_percent(values: dict[str, SettingValue], capacity: int, resume: int | None, defaults: Defaults) -> int:
    value, resume_share = values.get("stop-percent"), values.get("resume-percent")
    share = percent(value, defaults.stop_percent)
    if share is None:
        return UNLIMITED
    # Half up, as in Qpid C++; and below the capacity even if that is 1 or 2, or flow control could never engage.
    below = max(capacity - 1, 0)
    stop = min((capacity * _hundredths(share) * 2 + 10_000) // 20_000, below)
    if not is_explicit(value):
        if resume is not None:
            stop = max(stop, min(resume, capacity))
        elif resume_share is not None and is_explicit(resume_share) and not resume_share.none:
            stop = max(stop, min(cut(capacity, resume_share.real), below))
    return stop


def has_one_mark(values: dict[str, SettingValue], unit: str) -> bool:
    """Return whether the gate closes at the capacity, as Artemis' address does, because no percentage was given."""
    value = values.get("capacity-" + unit)
    given = "stop-percent" in values or "resume-percent" in values
    return value is not None and value.alias.startswith("max-size-") and not given


def opens_below(values: dict[str, SettingValue], unit: str, stop: SettingValue | None) -> bool:
    """Return whether a resume threshold that is not given in numbers opens the gate below itself, by Qpid C++'s names.

    The name of the percentage decides; without a percentage the name of the stop, or of the capacity.
    """
    value = values.get("resume-percent")
    if value is not None:
        return value.alias in OPENS_BELOW
    if stop is None:
        stop = values.get("capacity-" + unit)
    return stop is not None and stop.alias.startswith(QPIDS)


def _below_a_window(values: dict[str, SettingValue], unit: str, capacity: int, stop: int, resume: int | None) -> int:
    """Return a default stop that leaves room for a window; at least half of the capacity.

    Qpid C++'s percentages apply at every size if the capacity was set by its name (decision 11).
    """
    value, share = values.get("capacity-" + unit), values.get("resume-percent")
    if "stop-percent" in values or (value is not None and value.alias.startswith(QPIDS)):
        return stop
    if resume is None:
        resume = 0 if share is None or share.none else cut(capacity, share.real)
    return min(stop, max(capacity - WINDOW[unit], (capacity + 1) // 2, resume))


def cut(capacity: int, share: float) -> int:
    """Return a percentage of a capacity, truncated."""
    return capacity * _hundredths(share) // 10_000


def _hundredths(share: float) -> int:
    """Return a percentage in hundredths of a percent, as Broker-J has it; large capacities stay exact."""
    return round(share * 100)


def _describe(setting_value: SettingValue | None, name: str, value: int) -> str:
    if setting_value is None:
        return f"{name}={value} (by default)"
    return (
        f"{name}={value}, from {setting_value.describe()},"
        if setting_value.alias.endswith(("percent", "threshold"))
        else setting_value.describe()
    )


def _other_source(capacity: SettingValue | None, stop: SettingValue | None) -> str:
    """Return the source of the capacity, unless it is also the source of the stop."""
    if capacity is None or stop is None:
        return " (by default)"
    same = capacity.origin == stop.origin and capacity.pattern == stop.pattern and capacity.by == stop.by
    return "" if same else f" ({capacity.alias}={capacity.raw}, {capacity.source()})"


DISK_FREE_BYTES: Final = 50_000_000
"""Default free bytes on the store's file system: RabbitMQ's disk_free_limit."""
UNDERFULL_PERCENT: Final = 90
"""Default of disk-underfull, in percent of disk-overfull."""


class DiskLimits:
    """Limits of stored bytes and of free disk space; UNLIMITED means no quota."""

    def __init__(self) -> None:
        self.overfull: i64 = UNLIMITED
        """Stored bytes above which publishes are blocked."""
        self.underfull: i64 = UNLIMITED
        """Stored bytes at or below which they are unblocked."""
        self.free_bytes: i64 = 0
        """Bytes of the file system that must be free."""
        self.free_percent: float = 0.0
        """The free space as a share of the file system, if it was set as a percentage."""

    def has_room(self) -> bool:
        """Return whether free space is required."""
        return self.free_bytes > 0 or self.free_percent > 0.0


class Limits:
    """The resolved limits of one object; None means no limit."""

    def __init__(self) -> None:
        self.thresholds: Thresholds | None = None
        """Thresholds of its contents: an address, the queues of a virtual host, or the broker's memory (bytes).

        All are UNLIMITED if the memory limit is set to none.
        """
        self.rate_messages: float | None = None
        """Messages a second."""
        self.refill_messages: float = NEVER
        """Tokens a second for messages: the rate; without a burst, less by the amount that `smooth` adds to the
        burst.
        """
        self.rate_bytes: float | None = None
        """Bytes (charges) a second."""
        self.burst_messages: float = NEVER
        """Messages that may pass at once. By default one, plus an allowance for late timers (`smooth`). Infinite
        without a rate."""
        self.burst_bytes: float = NEVER
        """Bytes that may pass at once; by default a second's worth. Infinite without a rate."""
        self.disk = DiskLimits()
        """Limits of stored bytes: of a virtual host's queues, or of the broker."""
        self.weight: int = 1
        """Share of the turns, 1 to 100 (users)."""
        self.hold_deadline_s: float | None = None
        """Hold deadline in seconds, 0 for no deadline; None if not set (virtual hosts, the broker)."""

    def unlimited(self) -> bool:
        """Return whether nothing is limited."""
        return self.thresholds is None and self.rate_messages is None and self.rate_bytes is None

    def lowered(self, own: Limits | None) -> Limits:
        """Return the rates of these limits and of a client's own: the lower of each, and the smaller burst."""
        if own is None:
            return self
        limits = Limits()
        limits.rate_messages = _lower(self.rate_messages, own.rate_messages)
        limits.refill_messages = min(self.refill_messages, own.refill_messages)
        limits.burst_messages = min(self.burst_messages, own.burst_messages)
        limits.rate_bytes = _lower(self.rate_bytes, own.rate_bytes)
        limits.burst_bytes = min(self.burst_bytes, own.burst_bytes)
        return limits


def rates(subject: str, values: dict[str, SettingValue]) -> Limits | None:
    """Resolve the rates that a client sets for itself; None for no rate. Raises PreconditionFailed (406) as
    `limits`.
    """
    for unit in ("messages", "bytes"):
        if f"burst-{unit}" in values and f"rate-{unit}" not in values:
            raise PreconditionFailed(f"{subject}: burst-{unit} has no effect without rate-{unit}; set that as well")
    rate = values.get("rate-messages")
    if "burst-messages" in values and rate is not None and rate.alias in WITHOUT_BURST:
        raise PreconditionFailed(f"{subject}: {rate.describe()} has no burst; set rate-messages for one with a burst")
    limits = Limits()
    _set_rates(limits, values)
    return None if limits.rate_messages is None and limits.rate_bytes is None else limits


def limits(
    subject: str, values: dict[str, SettingValue], defaults: Defaults, machine_bytes: int, shards: int = 1
) -> Limits:
    """Resolve the limits of an object. Raises PreconditionFailed (406) for contradictory settings.

    `machine_bytes` is the memory of the host, for percentages of it. Memory in bytes is divided by `shards`.
    """
    limits = Limits()
    if "memory-capacity" in values or "memory-stop" in values or "memory-resume" in values:
        limits.thresholds = _memory(subject, values, defaults, machine_bytes, shards)
    else:
        limits.thresholds = _thresholds(subject, values, defaults)
    limits.disk = _disk(subject, values)
    _set_rates(limits, values)
    weight = values.get("weight")
    if weight is not None:
        limits.weight = weight.number
    deadline = values.get("hold-deadline")
    if deadline is not None:
        limits.hold_deadline_s = max(deadline.real, 0.0)
    return limits


def _thresholds(subject: str, values: dict[str, SettingValue], defaults: Defaults) -> Thresholds | None:
    check_percents(subject, values)
    thresholds = resolve_thresholds(subject, values, number_or_none(values.get("capacity-bytes")), defaults, True)
    return None if thresholds.capacity.unlimited() and thresholds.stop.unlimited() else thresholds


def _memory(
    subject: str, values: dict[str, SettingValue], defaults: Defaults, machine_bytes: int, shards: int
) -> Thresholds | None:
    """Resolve the memory thresholds, which are like a queue's, in bytes, with other names."""
    thresholds: dict[str, SettingValue] = {name: value for name, value in values.items() if name.endswith("-percent")}
    for mark in ("capacity", "stop", "resume"):
        value = values.get(f"memory-{mark}")
        if value is not None:
            thresholds[f"{mark}-bytes"] = _in_bytes(subject, value, machine_bytes, shards)
    capacity = values.get("memory-capacity")
    if capacity is not None and capacity.none:  # Set explicitly to none, unlike the default.
        return Thresholds(Level(), Level(), Level())
    return _thresholds(subject, thresholds, defaults)


def _disk(subject: str, values: dict[str, SettingValue]) -> DiskLimits:
    limits = DiskLimits()
    overfull, underfull = values.get("disk-overfull"), values.get("disk-underfull")
    if overfull is not None and not overfull.none:
        limits.overfull = overfull.number
        limits.underfull = overfull.number * UNDERFULL_PERCENT // 100
        if underfull is not None and not underfull.none:
            if underfull.number > overfull.number:
                raise PreconditionFailed(
                    f"{subject}: {underfull.describe()} is above {overfull.describe()}; "
                    "its gate would close and open at once"
                )
            limits.underfull = underfull.number
    elif underfull is not None and not underfull.none:
        raise PreconditionFailed(f"{subject}: {underfull.describe()} needs disk-overfull, which is not set")
    free = values.get("min-disk-free")
    if free is None:
        limits.free_bytes = DISK_FREE_BYTES
    elif free.text == "%":
        limits.free_percent = free.real
    elif not free.none:
        limits.free_bytes = free.number
    return limits


def _in_bytes(subject: str, value: SettingValue, machine_bytes: int, shards: int) -> SettingValue:
    if value.text != "%":
        return value if shards == 1 or value.none else value.with_number(max(1, value.number // shards))
    if machine_bytes <= 0:
        raise PreconditionFailed(f"{subject}: {value.describe()}: the memory of this machine is unknown; give bytes")
    return value.with_number(machine_bytes * round(value.real * 100) // 10_000)


def _set_rates(limits: Limits, values: dict[str, SettingValue]) -> None:
    rate, burst = values.get("rate-messages"), values.get("burst-messages")
    if rate is not None and not rate.none:
        limits.rate_messages = rate.real
        limits.refill_messages, limits.burst_messages = smooth(rate.real)
        if burst is not None and rate.alias not in WITHOUT_BURST:
            limits.refill_messages, limits.burst_messages = rate.real, burst.real
    rate, burst = values.get("rate-bytes"), values.get("burst-bytes")
    if rate is not None and not rate.none:
        limits.rate_bytes = rate.real
        limits.burst_bytes = max(rate.real, 1.0) if burst is None else burst.real


def _lower(rate: float | None, own: float | None) -> float | None:
    """Return the lower of two rates; None means no limit."""
    if rate is None or own is None:
        return own if rate is None else rate
    return min(rate, own)
