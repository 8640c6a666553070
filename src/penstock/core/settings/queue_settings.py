"""What is said about a queue, resolved: thresholds, overflow policy, deadlines, and what its consumers get.

See docs/flow-control.md. Said by its arguments, by patterns of its name, by its virtual host and by the broker, the
first of them winning setting by setting.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.core.queue.overflow import PAGE, POLICIES, OverflowPolicy
from penstock.core.settings.thresholds import (
    DEFAULT_CAPACITY_BYTES,
    DEFAULT_HOLD_DEADLINE_S,
    DEFAULT_RESUME_PERCENT,
    DEFAULT_STOP_PERCENT,
    Defaults,
    check_percents,
    is_explicit,
    number_or_none,
    resolve_unit,
)
from penstock.errors import PreconditionFailed
from penstock.flow.level import UNLIMITED, Level, Thresholds
from penstock.flow.timers import NEVER
from penstock.setting_names import SettingValue
from penstock.setting_names.setting_names import LENGTHS

NO_RATE: Final = -1.0
"""As Artemis' users know it."""
UNBOUNDED: Final = -1
"""A window without a bound: what AMQP 0-9-1 gives a consumer that asks for nothing (section 1.8.3.1)."""
DEFAULT_CONSUMER_TIMEOUT_S: Final = 1800.0
"""Half an hour, as in RabbitMQ: a consumer that holds a message for longer has lost it."""
DEFAULT_SLOW_PERIOD_S: Final = 5.0
"""Artemis' slow-consumer-check-period."""

__all__ = [
    "DEFAULT_CAPACITY_BYTES",
    "DEFAULT_HOLD_DEADLINE_S",
    "DEFAULT_RESUME_PERCENT",
    "DEFAULT_STOP_PERCENT",
    "NO_RATE",
    "UNBOUNDED",
    "Defaults",
    "Settings",
    "resolve",
]


NOT_SAID: Final = -1
"""A delivery limit that nobody gave: it depends on the type of the queue."""


class Settings:
    """One queue's resolved settings."""

    def __init__(self, thresholds: Thresholds, overflow: OverflowPolicy, hold_deadline_s: float) -> None:
        self.thresholds = thresholds
        self.overflow = overflow
        self.hold_deadline_s = hold_deadline_s
        """Seconds; infinity is for ever."""
        self.length = Level()
        """What may be ready at most, besides the capacity: messages, and octets of their bodies (see length.py)."""
        self.page_limit = Level()
        """What may be on the disk at most, where the policy is to page."""
        self.given: dict[str, SettingValue] = {}
        """What the queue's own arguments say, under our words."""
        self.message_ttl_s: float = NEVER
        """Seconds that a message may stay; infinity is for ever."""
        self.expires_s: float = NEVER
        """Seconds that the queue may stay unused; infinity is for ever."""
        self.consumer_timeout_s: float = DEFAULT_CONSUMER_TIMEOUT_S
        """Seconds in which a delivery must be acknowledged, or its channel is closed; infinity is for ever."""
        self.delivery_limit: i64 = NOT_SAID
        """How often a message may come back from consumers; UNLIMITED is as often as it likes."""
        self.dead_letter_exchange: str | None = None
        """Where messages go that die in the queue; None: nowhere."""
        self.dead_letter_routing_key: str | None = None
        """With which routing key; None: with their own."""
        self.consumer_window_bytes: i64 = UNBOUNDED
        """Bytes that a consumer may have without having settled them; 0 is one message at a time, -1 unbounded."""
        self.consumer_max_rate: float = NO_RATE
        """Messages a second that a consumer is given; -1 is as many as it takes."""
        self.slow_consumer_rate: float = NO_RATE
        """Messages a second below which a consumer is slow; -1 is never."""
        self.slow_consumer_period_s: float = DEFAULT_SLOW_PERIOD_S
        """Seconds over which that is measured."""
        self.slow_consumer_policy: str = "notify"
        """ "notify" or "cancel"."""


def resolve(queue: str, words: dict[str, SettingValue], defaults: Defaults) -> Settings:
    """Resolve what is said about a queue, under our words, into its settings.

    Raises PreconditionFailed with one sentence that names queue, setting, value and rule.
    """
    thing = f"queue '{queue}'"
    check_percents(thing, words)
    overflow = _overflow(queue, words)
    if not overflow.counts_ready:
        words = lengths_as_capacity(queue, words)
    wanted = overflow.has_thresholds or any(
        name.startswith(("stop-", "resume-")) and is_explicit(word) and not word.none for name, word in words.items()
    )
    messages = resolve_unit(thing, words, "messages", number_or_none(words.get("capacity-messages")), defaults, wanted)
    size = resolve_unit(thing, words, "bytes", capacity_bytes(words, defaults), defaults, wanted)
    settings = Settings(
        Thresholds(
            Level(messages.capacity, size.capacity),
            Level(messages.stop, size.stop),
            Level(messages.resume, size.resume),
        ),
        overflow,
        hold_deadline_s(words, defaults),
    )
    if overflow.counts_ready:
        settings.length = Level(_most(words.get("max-length")), _most(words.get("max-length-bytes")))
    if overflow.pages:
        settings.page_limit = Level(_most(words.get("page-limit-messages")), _most(words.get("page-limit-bytes")))
    settings.message_ttl_s = _time(words.get("message-ttl"), 0.001)
    settings.expires_s = _time(words.get("expires"), 0.001)
    if "consumer-timeout" in words:
        settings.consumer_timeout_s = _time(words["consumer-timeout"], 0.001)
    limit = words.get("delivery-limit")
    if limit is not None:
        settings.delivery_limit = UNLIMITED if limit.none else limit.number
    _consumers(settings, words)
    _dead_letters(queue, settings, words)
    return settings


def _overflow(queue: str, words: dict[str, SettingValue]) -> OverflowPolicy:
    """Return the policy. Raises PreconditionFailed (406) for what a declaration says and that policy does not know."""
    name = overflow_name(words)
    if name != "page":
        for limit in ("page-limit-messages", "page-limit-bytes", "page-full-policy"):
            if limit in words and words[limit].rank == 0:
                raise PreconditionFailed(
                    f"queue '{queue}': {words[limit].describe()} needs the overflow policy page, and it is {name}"
                )
        return POLICIES[name]
    for mark, word in words.items():
        if mark.startswith(("stop-", "resume-")) and is_explicit(word) and not word.none:
            raise PreconditionFailed(
                f"queue '{queue}': {word.describe()} would block producers before the overflow policy page "
                f"({words['overflow'].describe()}) sends anything to the disk; leave one of them out"
            )
    full = words.get("page-full-policy")
    return PAGE["block" if full is None else full.text]


def overflow_name(words: dict[str, SettingValue]) -> str:
    """Return the policy: the one that is named, or the one that is meant by the name that the capacity goes by."""
    chosen = words.get("overflow")
    if chosen is not None:
        return chosen.text
    # `x-max-length` without `x-overflow` keeps the meaning that RabbitMQ's users ask for by that name.
    return "drop-head" if any(name in words for name in LENGTHS) else "block"


def lengths_as_capacity(queue: str, words: dict[str, SettingValue]) -> dict[str, SettingValue]:
    """Return the words with RabbitMQ's lengths as the capacity, which they are with a policy that is not RabbitMQ's.

    The stronger of the two counts. Raises PreconditionFailed (406) where one source says both, and they differ.
    """
    found = dict(words)
    for length, capacity in LENGTHS.items():
        word, other = found.pop(length, None), found.get(capacity)
        if word is None or word.none:
            continue
        if other is not None and other.rank == word.rank and other.value() != word.value():
            raise PreconditionFailed(
                f"queue '{queue}': {other.describe()} contradicts {word.describe()}; both set {capacity} "
                "with an overflow policy other than drop-head, reject-publish and reject-publish-dlx"
            )
        if other is None or word.rank < other.rank:
            found[capacity] = word
    return found


def capacity_bytes(words: dict[str, SettingValue], defaults: Defaults) -> int | None:
    """Return the capacity in bytes; None is none.

    The default only stands in where no capacity is given in either unit, and gives way to a threshold above it.
    """
    word = words.get("capacity-bytes")
    if is_explicit(word):
        return number_or_none(word)
    if number_or_none(words.get("capacity-messages")) is not None:
        return None
    capacity = defaults.capacity_bytes if word is None else number_or_none(word)
    if capacity is None:
        return None
    for name in ("stop-bytes", "resume-bytes", "max-length-bytes"):
        asked = number_or_none(words.get(name))
        if asked is not None and asked > capacity:
            capacity = asked + asked // 4  # Of which it is the 80 % that a stop is by default.
    return capacity


def hold_deadline_s(words: dict[str, SettingValue], defaults: Defaults) -> float:
    """Return how long a publish may be held: seconds, infinity for ever."""
    word = words.get("hold-deadline")
    seconds = defaults.hold_deadline_s if word is None else word.real
    return seconds if seconds > 0 else NEVER


def _dead_letters(queue: str, settings: Settings, words: dict[str, SettingValue]) -> None:
    exchange, key = words.get("dead-letter-exchange"), words.get("dead-letter-routing-key")
    if exchange is not None:
        settings.dead_letter_exchange = exchange.text
    if key is not None:
        if exchange is None:
            raise PreconditionFailed(
                f"queue '{queue}': {key.describe()} needs a dead-letter-exchange, and there is none"
            )
        settings.dead_letter_routing_key = key.text


def _consumers(settings: Settings, words: dict[str, SettingValue]) -> None:
    window = words.get("consumer-window-bytes")
    if window is not None:
        settings.consumer_window_bytes = window.number
    settings.consumer_max_rate = _rate(words.get("consumer-max-rate"))
    settings.slow_consumer_rate = _rate(words.get("slow-consumer-rate"))
    period = words.get("slow-consumer-period")
    if period is not None:
        settings.slow_consumer_period_s = period.real
    policy = words.get("slow-consumer-policy")
    if policy is not None:
        settings.slow_consumer_policy = policy.text


def _most(word: SettingValue | None) -> int:
    return UNLIMITED if word is None or word.none else word.number


def _time(word: SettingValue | None, unit_s: float) -> float:
    return NEVER if word is None or word.none else word.number * unit_s


def _rate(word: SettingValue | None) -> float:
    return NO_RATE if word is None or word.none else word.real
