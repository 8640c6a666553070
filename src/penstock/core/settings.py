"""What a queue's arguments mean, resolved: thresholds, overflow policy, deadlines.

Defaults: see docs/flow-control.md. Only a capacity given: stop 80 %, resume 70 % of it (Qpid C++'s published defaults),
stop rounding half up, resume truncating. A default never makes a declaration fail that the user's own arguments would
not.
"""

from __future__ import annotations

from typing import Final

from penstock.core.overflow import POLICIES, OverflowPolicy
from penstock.errors import PreconditionFailed
from penstock.flow.deadlines import NEVER
from penstock.flow.level import UNLIMITED, Level, Thresholds
from penstock.names import Word

DEFAULT_CAPACITY_BYTES: Final = 100 * 1024 * 1024
"""100 MiB: Qpid C++'s default. A broker that cannot be overrun has no unlimited queue by default."""
DEFAULT_STOP_PERCENT: Final = 80
DEFAULT_RESUME_PERCENT: Final = 70
DEFAULT_HOLD_DEADLINE_S: Final = 30.0


class Defaults:
    """The broker's own values for what a declaration leaves out."""

    def __init__(
        self,
        capacity_bytes: int = DEFAULT_CAPACITY_BYTES,
        stop_percent: int = DEFAULT_STOP_PERCENT,
        resume_percent: int = DEFAULT_RESUME_PERCENT,
        hold_deadline_s: float = DEFAULT_HOLD_DEADLINE_S,
    ) -> None:
        self.capacity_bytes = capacity_bytes
        self.stop_percent = stop_percent
        self.resume_percent = resume_percent
        self.hold_deadline_s = hold_deadline_s
        """Seconds that a publish may be held; 0 is for ever (Qpid and Artemis)."""


class Settings:
    """One queue's resolved settings."""

    def __init__(self, thresholds: Thresholds, overflow: OverflowPolicy, hold_deadline_s: float) -> None:
        self.thresholds = thresholds
        self.overflow = overflow
        self.hold_deadline_s = hold_deadline_s
        """Seconds; infinity is for ever."""
        self.message_ttl_s: float = NEVER
        """Seconds that a message may stay; infinity is for ever."""
        self.expires_s: float = NEVER
        """Seconds that the queue may stay unused; infinity is for ever."""


def resolve(queue: str, words: dict[str, Word], defaults: Defaults) -> Settings:
    """Resolve a queue's arguments, already under our words, into its settings.

    Raises PreconditionFailed with one sentence that names queue, argument, value and rule.
    """
    overflow = POLICIES[_overflow_name(words)]
    capacity_bytes = _amount(words, "capacity-bytes")
    capacity_messages = _amount(words, "capacity-messages")
    if capacity_bytes is None and capacity_messages is None:
        capacity_bytes = defaults.capacity_bytes
    thresholds = overflow.has_thresholds or any(name.startswith(("stop-", "resume-")) for name in words)
    messages = _marks(queue, words, "messages", capacity_messages, defaults, thresholds)
    size = _marks(queue, words, "bytes", capacity_bytes, defaults, thresholds)
    deadline = words.get("hold-deadline")
    seconds = defaults.hold_deadline_s if deadline is None else float(deadline.number)
    settings = Settings(
        Thresholds(Level(messages[0], size[0]), Level(messages[1], size[1]), Level(messages[2], size[2])),
        overflow,
        seconds if seconds > 0 else NEVER,
    )
    ttl = words.get("message-ttl")
    if ttl is not None:
        settings.message_ttl_s = ttl.number / 1000
    expires = words.get("expires")
    if expires is not None:
        settings.expires_s = expires.number / 1000
    return settings


def _overflow_name(words: dict[str, Word]) -> str:
    chosen = words.get("overflow")
    if chosen is not None:
        return chosen.text
    # `x-max-length` without `x-overflow` keeps the meaning that RabbitMQ's users ask for by that name.
    for name in ("capacity-messages", "capacity-bytes"):
        if name in words and words[name].alias.startswith("x-max-length"):
            return "drop-head"
    return "block"


def _amount(words: dict[str, Word], name: str) -> int | None:
    word = words.get(name)
    return None if word is None else word.number


def _marks(
    queue: str, words: dict[str, Word], unit: str, capacity: int | None, defaults: Defaults, thresholds: bool
) -> tuple[int, int, int]:
    """Return capacity, stop and resume in one unit."""
    stop_word, resume_word = words.get("stop-" + unit), words.get("resume-" + unit)
    stop_percent, resume_percent = _percent(words, "stop", defaults), _percent(words, "resume", defaults)
    _check_percents(queue, words)
    stop, resume = UNLIMITED, UNLIMITED
    if stop_word is not None:
        stop = stop_word.number
    elif capacity is not None and thresholds:
        # Half up, as Qpid C++; and below the capacity even where that is 1 or 2, or flow control could never engage.
        stop = min((capacity * stop_percent * 2 + 100) // 200, max(capacity - 1, 0))
        if resume_word is not None:
            stop = max(stop, min(resume_word.number, capacity))
    if resume_word is not None:
        resume = resume_word.number
    elif stop != UNLIMITED:
        resume = stop if capacity is None else min(stop, capacity * resume_percent // 100)
    if resume_word is not None and stop == UNLIMITED:
        raise PreconditionFailed(
            f"queue '{queue}': {resume_word.alias}={resume_word.given} has no stop threshold to go with; give "
            f"stop-{unit} or capacity-{unit} as well"
        )
    if resume > stop:
        raise PreconditionFailed(
            f"queue '{queue}': {_told(resume_word, 'resume-' + unit, resume)} "
            f"is above {_told(stop_word, 'stop-' + unit, stop)}; "
            "resume must be at or below stop, or producers stay blocked for ever"
        )
    if capacity is not None and stop != UNLIMITED and stop > capacity:
        raise PreconditionFailed(
            f"queue '{queue}': {_told(stop_word, 'stop-' + unit, stop)} is above the capacity of {capacity} {unit}; "
            "stop must be at or below capacity"
        )
    return UNLIMITED if capacity is None else capacity, stop, resume


def _percent(words: dict[str, Word], mark: str, defaults: Defaults) -> int:
    word = words.get(mark + "-percent")
    if word is not None:
        return word.number
    return defaults.stop_percent if mark == "stop" else defaults.resume_percent


def _check_percents(queue: str, words: dict[str, Word]) -> None:
    stop, resume = words.get("stop-percent"), words.get("resume-percent")
    if stop is not None and resume is not None and resume.number > stop.number:
        raise PreconditionFailed(
            f"queue '{queue}': {resume.alias}={resume.given} is above {stop.alias}={stop.given}; "
            "resume must be at or below stop, or producers stay blocked for ever"
        )


def _told(word: Word | None, name: str, value: int) -> str:
    return f"{name}={value} (by default)" if word is None else f"{word.alias}={word.given}"
