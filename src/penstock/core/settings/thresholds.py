"""Resolution of capacity, stop and resume thresholds in one unit, from all sources of settings.

With a capacity alone, stop is 80 % and resume 70 % of it (Qpid C++'s published defaults), stop rounded half up, resume
truncated. 20 % of a small capacity would leave no room for the messages in flight when the gate closes, so the stop is
lower there (decision 32). Explicit settings take precedence over defaults, and a default is adjusted to them: no
declaration fails because of a default. Explicit settings that contradict each other are refused.
"""

from __future__ import annotations

from typing import Final

from penstock.errors import PreconditionFailed
from penstock.flow.level import OVERHEAD, UNLIMITED
from penstock.setting_names import SettingValue
from penstock.setting_names.setting_names import FOREIGN_BYTES, JAVAS_CAPACITY, MARKS_IN_BYTES, OPENS_BELOW

DEFAULT_CAPACITY_BYTES: Final = 100 * 1024 * 1024
"""100 MiB: Qpid C++'s default. A broker that cannot be overrun has no unlimited queue by default."""
DEFAULT_STOP_PERCENT: Final = 80.0
DEFAULT_RESUME_PERCENT: Final = 70.0
WINDOW: Final[dict[str, int]] = {"messages": 10, "bytes": 16 * 1024}
"""Messages in flight of a publisher: room left above a default stop, within half of the capacity."""
QPIDS: Final = ("qpid.", "default-queue-limit")
"""Beginnings of Qpid C++'s names of capacities and stops."""
DEFAULT_HOLD_DEADLINE_S: Final = 30.0
DEFAULT_RANK: Final = 1 << 20
"""Values of this rank and above are defaults (the virtual host's, the broker's) for many queues."""


class Defaults:
    """The broker's default settings."""

    def __init__(
        self,
        capacity_bytes: int = DEFAULT_CAPACITY_BYTES,
        stop_percent: float = DEFAULT_STOP_PERCENT,
        resume_percent: float = DEFAULT_RESUME_PERCENT,
        hold_deadline_s: float = DEFAULT_HOLD_DEADLINE_S,
    ) -> None:
        self.capacity_bytes = capacity_bytes
        self.stop_percent = stop_percent
        self.resume_percent = resume_percent
        self.hold_deadline_s = hold_deadline_s
        """Seconds that a publish may be held; 0 for no deadline (Qpid and Artemis)."""

    def hold_deadline_ms(self) -> int:
        """Return the same in milliseconds."""
        return round(self.hold_deadline_s * 1000)


class UnitThresholds:
    """Thresholds in one unit; UNLIMITED is no limit."""

    def __init__(self, capacity: int, stop: int, resume: int) -> None:
        self.capacity = capacity
        self.stop = stop
        self.resume = resume


def is_explicit(word: SettingValue | None) -> bool:
    """Return whether the value was set for this object, or a pattern of it: it is not a default."""
    return word is not None and word.rank < DEFAULT_RANK


def number_or_none(word: SettingValue | None) -> int | None:
    """Return the number of a value; None if it is absent or `none`."""
    return None if word is None or word.none else word.number


def resolve_unit(
    subject: str, words: dict[str, SettingValue], unit: str, capacity: int | None, defaults: Defaults, wanted: bool
) -> UnitThresholds:
    """Resolve one unit. `wanted`: thresholds follow from the capacity if none are given.

    Raises PreconditionFailed (406) with one sentence that names the object, the values, their sources and the rule.
    """
    stop_word = absolute(words, "stop", unit, capacity)
    resume_word = absolute(words, "resume", unit, capacity)
    stop, resume, lowered = UNLIMITED, UNLIMITED, False
    one_mark = has_one_mark(words, unit)
    if stop_word is not None:
        stop = stop_word.number if not stop_word.none else UNLIMITED
    elif capacity is not None and wanted and one_mark:
        stop = max(capacity - 1, 0)
    elif capacity is not None and wanted:
        by_percent = _stop_by_percent(words, capacity, number_or_none(resume_word), defaults)
        stop = _below_a_window(words, unit, capacity, by_percent, number_or_none(resume_word))
        lowered = stop < by_percent
    if resume_word is not None and not resume_word.none:
        resume = resume_word.number
        if stop == UNLIMITED:
            raise PreconditionFailed(
                f"{subject}: {resume_word.describe()} has no stop threshold to go with; "
                f"give stop-{unit} or capacity-{unit} as well"
            )
    elif stop != UNLIMITED:
        share = percent(words.get("resume-percent"), defaults.resume_percent)
        below = 1 if opens_below(words, unit, stop_word) else 0
        from_stop = capacity is None or share is None or resume_word is not None or one_mark
        resume = max((stop if from_stop else min(stop, cut(capacity or 0, share or 0.0))) - below, 0)
        if lowered and "resume-percent" not in words:
            resume = min(resume, stop * 7 // 8)  # As 70 % is of 80 %.
    if resume > stop:
        raise PreconditionFailed(
            f"{subject}: {_describe(resume_word, f'resume-{unit}', resume)} is above "
            f"{_describe(stop_word or words.get('stop-percent'), f'stop-{unit}', stop)}; "
            "resume must be at or below stop, or producers stay blocked for ever"
        )
    if capacity is not None and stop != UNLIMITED and stop > capacity:
        raise PreconditionFailed(
            f"{subject}: {_describe(stop_word, f'stop-{unit}', stop)} is above the capacity of {capacity} {unit}"
            f"{_other_source(words.get(f'capacity-{unit}'), stop_word)}; stop must be at or below capacity"
        )
    return UnitThresholds(UNLIMITED if capacity is None else capacity, stop, resume)


def percent(word: SettingValue | None, default: float) -> float | None:
    """Return a percentage; None for none."""
    if word is None:
        return default
    return None if word.none else word.real


def check_percents(subject: str, words: dict[str, SettingValue]) -> None:
    """Raise PreconditionFailed (406) if a resume percentage is above the stop's; a default is adjusted instead."""
    stop, resume = words.get("stop-percent"), words.get("resume-percent")
    if not is_explicit(stop) or not is_explicit(resume) or stop is None or resume is None:
        return
    if not stop.none and not resume.none and resume.real > stop.real:
        raise PreconditionFailed(
            f"{subject}: {resume.describe()} is above {stop.describe()}; "
            "resume must be at or below stop, or producers stay blocked for ever"
        )


def with_derived_capacity(words: dict[str, SettingValue]) -> dict[str, SettingValue]:
    """Return the settings with the Java broker's capacity as stop and resume, and a capacity a quarter above it.

    There the message that passes its capacity goes in, and blocks its producer. A stronger stop or resume counts, and
    a given percentage is of its capacity.
    """
    word = words.get("capacity-bytes")
    if word is None or word.none or word.alias not in JAVAS_CAPACITY:
        return words
    if not is_explicit(word) and number_or_none(words.get("capacity-messages")) is not None:
        return words  # A default in bytes does not apply beside a capacity in messages.
    found = dict(words)
    above = word.number + max(word.number // 4, WINDOW["bytes"])
    found["capacity-bytes"] = word.with_number(min(above, UNLIMITED - 1))
    stop, resume, share = words.get("stop-bytes"), words.get("resume-bytes"), words.get("resume-percent")
    if stop is None or stop.rank > word.rank:
        stop = word
    found["stop-bytes"] = stop
    if resume is None or resume.none:
        by_share = stop
        if share is not None and is_explicit(share) and not share.none:
            by_share = share.with_number(cut(word.number, share.real))
        found["resume-bytes"] = by_share if by_share.number < stop.number else stop
    return found


def uncounted(words: dict[str, SettingValue]) -> int:
    """Return the octets of each message that do not count in its limits in bytes.

    They are all of the overhead by names of other brokers. The name of the capacity decides, or without one that of the
    stop, or of the resume.
    """
    for mark in MARKS_IN_BYTES:
        word = words.get(mark)
        if word is not None and (mark != "capacity-bytes" or is_explicit(word) or word.alias in FOREIGN_BYTES):
            return OVERHEAD if word.alias in FOREIGN_BYTES else 0
    return 0


def absolute(words: dict[str, SettingValue], threshold: str, unit: str, capacity: int | None) -> SettingValue | None:
    """Return the threshold given as a number, unless a stronger source gives a percentage."""
    word, share = words.get(f"{threshold}-{unit}"), words.get(f"{threshold}-percent")
    if word is not None and share is not None and capacity is not None and share.rank < word.rank:
        return None
    return word


def _stop_by_percent(words: dict[str, SettingValue], capacity: int, resume: int | None, defaults: Defaults) -> int:
    word, resume_share = words.get("stop-percent"), words.get("resume-percent")
    share = percent(word, defaults.stop_percent)
    if share is None:
        return UNLIMITED
    # Half up, as Qpid C++; and below the capacity even if that is 1 or 2, or flow control could never engage.
    below = max(capacity - 1, 0)
    stop = min((capacity * _hundredths(share) * 2 + 10_000) // 20_000, below)
    if not is_explicit(word):
        if resume is not None:
            stop = max(stop, min(resume, capacity))
        elif resume_share is not None and is_explicit(resume_share) and not resume_share.none:
            stop = max(stop, min(cut(capacity, resume_share.real), below))
    return stop


def has_one_mark(words: dict[str, SettingValue], unit: str) -> bool:
    """Return whether the gate closes at the capacity, as Artemis' address does: no percentage was given besides."""
    word = words.get("capacity-" + unit)
    given = "stop-percent" in words or "resume-percent" in words
    return word is not None and word.alias.startswith("max-size-") and not given


def opens_below(words: dict[str, SettingValue], unit: str, stop: SettingValue | None) -> bool:
    """Return whether a resume threshold that is not given in numbers opens the gate below itself, by Qpid C++'s names.

    The border follows the name of the percentage; without one that of the stop, or of the capacity.
    """
    word = words.get("resume-percent")
    if word is not None:
        return word.alias in OPENS_BELOW
    if stop is None:
        stop = words.get("capacity-" + unit)
    return stop is not None and stop.alias.startswith(QPIDS)


def _below_a_window(words: dict[str, SettingValue], unit: str, capacity: int, stop: int, resume: int | None) -> int:
    """Return a default stop that leaves room for a window; at least half of the capacity.

    Qpid C++'s percentages apply at every size if the capacity was set by its name (decision 11).
    """
    word, share = words.get("capacity-" + unit), words.get("resume-percent")
    if "stop-percent" in words or (word is not None and word.alias.startswith(QPIDS)):
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


def _describe(word: SettingValue | None, name: str, value: int) -> str:
    if word is None:
        return f"{name}={value} (by default)"
    return (
        f"{name}={value}, from {word.describe()}," if word.alias.endswith(("percent", "threshold")) else word.describe()
    )


def _other_source(capacity: SettingValue | None, stop: SettingValue | None) -> str:
    """Return the source of the capacity, unless it is also the source of the stop."""
    if capacity is None or stop is None:
        return " (by default)"
    same = capacity.origin == stop.origin and capacity.pattern == stop.pattern and capacity.by == stop.by
    return "" if same else f" ({capacity.alias}={capacity.raw}, {capacity.source()})"
