"""Resolved settings of a queue: thresholds, overflow policy, deadlines, dead-lettering, consumer defaults.

See docs/settings.md. Sources are the queue's arguments, policies, patterns of its name, its virtual host and the
broker; the first source wins, setting by setting.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.core.queue.overflow import PAGE, POLICIES, OverflowPolicy
from penstock.core.settings.policy import NO_POLICIES
from penstock.core.settings.thresholds import (
    DEFAULT_CAPACITY_BYTES,
    DEFAULT_HOLD_DEADLINE_S,
    DEFAULT_RESUME_PERCENT,
    DEFAULT_STOP_PERCENT,
    QPIDS,
    Defaults,
    check_percents,
    is_explicit,
    number_or_none,
    resolve_unit,
    uncounted,
    with_derived_capacity,
)
from penstock.errors import PreconditionFailed
from penstock.flow.level import UNLIMITED, Level, Thresholds
from penstock.flow.timers import NEVER
from penstock.setting_names import SettingValue
from penstock.setting_names.setting_names import LENGTHS
from penstock.setting_names.setting_value import ARGUMENT

NO_RATE: Final = -1.0
"""The value for no limit, as in Artemis."""
UNBOUNDED: Final = -1
"""An unbounded window: the default of AMQP 0-9-1 (section 1.8.3.1)."""
DEFAULT_CONSUMER_TIMEOUT_S: Final = 1800.0
"""Default time to acknowledge a delivery, as in RabbitMQ: half an hour."""
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


CREDIT_WINDOW_MESSAGES: Final = 1000
CREDIT_WINDOW_BYTES: Final = 1_048_576
"""Window of a link that publishes to the queue."""
CREDIT_IDLE_S: Final = 0.1
"""Seconds without a message after which a sender's credit is idle."""

NOT_SET: Final = -1
"""A delivery limit that is not set: the default depends on the type of the queue."""


class LagLimit:
    """Limit of the lag of the cursors of one queue; each amount may be unlimited."""

    def __init__(self, messages: i64, bytes: i64, age_s: float, detaches: bool) -> None:
        self.messages: i64 = messages
        self.bytes: i64 = bytes
        """Sum of charges."""
        self.age_s = age_s
        """Age of the oldest unsettled message in seconds; infinity for none."""
        self.detaches = detaches
        """True to detach a cursor beyond it; else it is logged."""


class Settings:
    """The resolved settings of one queue."""

    def __init__(self, thresholds: Thresholds, overflow: OverflowPolicy, hold_deadline_s: float) -> None:
        self.thresholds = thresholds
        self.overflow = overflow
        self.hold_deadline_s = hold_deadline_s
        """Seconds; infinity for no deadline."""
        self.length = Level()
        """Limit of ready messages, besides the capacity: messages, and octets of their bodies (see length_limit.py)."""
        self.page_limit = Level()
        """Limit of paged messages, if the policy is `page`."""
        self.lag_limit: LagLimit | None = None
        """Limit of the lag of cursors; None if there is none."""
        self.given: dict[str, SettingValue] = {}
        """Settings in the queue's own arguments."""
        self.policies = NO_POLICIES
        self.message_ttl_s: float = NEVER
        """Message time to live in seconds; infinity for none."""
        self.expires_s: float = NEVER
        """Seconds without use after which the queue expires; infinity for never."""
        self.consumer_timeout_s: float = DEFAULT_CONSUMER_TIMEOUT_S
        """Seconds within which a delivery must be acknowledged, or its channel is closed; infinity for no limit."""
        self.delivery_limit: i64 = NOT_SET
        """Most failed deliveries of a message; UNLIMITED for no limit."""
        self.dead_letter_exchange: str | None = None
        """Exchange for dead letters; None drops them."""
        self.dead_letter_routing_key: str | None = None
        """Routing key of dead letters; None keeps their own."""
        self.consumer_window_bytes: i64 = UNBOUNDED
        """Unsettled bytes that a consumer may have; 0 is one message at a time, -1 unbounded."""
        self.consumer_window_adaptive: bool = False
        """True if consumers have an adaptive window (see flow/adaptive_window.py)."""
        self.consumer_window_min: i64 = 1
        self.consumer_window_max: i64 = UNLIMITED
        """Its bounds, in messages; UNLIMITED for no upper bound."""
        self.consumer_max_rate: float = NO_RATE
        """Most messages a second of a consumer; -1 for no limit."""
        self.slow_consumer_rate: float = NO_RATE
        """Messages a second below which a consumer is slow; -1 for never."""
        self.slow_consumer_period_s: float = DEFAULT_SLOW_PERIOD_S
        """Seconds of the measurement."""
        self.slow_consumer_policy: str = "notify"
        """ "notify" or "cancel"."""
        self.credit_window_messages: i64 = CREDIT_WINDOW_MESSAGES
        self.credit_window_bytes: i64 = CREDIT_WINDOW_BYTES
        """Most credit of a sender, the smaller of both; UNLIMITED for no limit."""
        self.credit_idle_s: float = CREDIT_IDLE_S
        """Seconds after which credit is taken back if others wait; infinity for never."""
        self.auto_create: bool = False
        """True if a link that names the queue creates it (AMQP 1.0)."""


def resolve(queue: str, words: dict[str, SettingValue], defaults: Defaults) -> Settings:
    """Resolve the settings of a queue.

    Raises PreconditionFailed with one sentence that names queue, setting, value and rule.
    """
    subject = f"queue '{queue}'"
    check_percents(subject, words)
    overflow = _overflow(queue, words)
    words = limiting(queue, words, overflow)
    wanted = overflow.has_thresholds or _qpid_has_thresholds(words) or any(map(_is_threshold, words.items()))
    messages = resolve_unit(
        subject, words, "messages", number_or_none(words.get("capacity-messages")), defaults, wanted
    )
    size = resolve_unit(subject, words, "bytes", capacity_bytes(words, defaults), defaults, wanted)
    beside = 0 if overflow.pages else uncounted(words)  # What pages out is limited in memory: all of a charge counts.
    settings = Settings(
        Thresholds(
            Level(messages.capacity, size.capacity, beside),
            Level(messages.stop, size.stop, beside),
            Level(messages.resume, size.resume, beside),
        ),
        overflow,
        hold_deadline_s(words, defaults),
    )
    if overflow.counts_ready:
        settings.length = Level(_most(words.get("max-length")), _most(words.get("max-length-bytes")))
    if overflow.pages:
        settings.page_limit = Level(_most(words.get("page-limit-messages")), _most(words.get("page-limit-bytes")))
    settings.message_ttl_s = _time(words.get("message-ttl"), 1000)
    settings.expires_s = _time(words.get("expires"), 1000)
    if "consumer-timeout" in words:
        settings.consumer_timeout_s = _time(words["consumer-timeout"], 1000)
    limit = words.get("delivery-limit")
    if limit is not None:
        settings.delivery_limit = UNLIMITED if limit.none else limit.number
    _consumers(subject, settings, words)
    settings.lag_limit = _lag_limit(words)
    settings.credit_window_messages = credit_messages(words, settings.credit_window_messages)
    settings.credit_window_bytes = credit_bytes(words, settings.credit_window_bytes)
    settings.credit_idle_s = credit_idle_s(words, settings.credit_idle_s)
    switch = words.get("auto-create")
    settings.auto_create = switch is not None and switch.text == "true"
    _dead_letters(queue, settings, words)
    return settings


def _overflow(queue: str, words: dict[str, SettingValue]) -> OverflowPolicy:
    """Return the overflow policy. Raises PreconditionFailed (406) for settings that the policy does not support."""
    name = overflow_name(words)
    if name != "page":
        for limit in ("page-limit-messages", "page-limit-bytes", "page-full-policy"):
            if limit in words and words[limit].rank == 0:
                raise PreconditionFailed(
                    f"queue '{queue}': {words[limit].describe()} needs the overflow policy page, not {name}"
                )
        return POLICIES[name]
    for _, word in filter(_is_threshold, words.items()):
        raise PreconditionFailed(
            f"queue '{queue}': {word.describe()} would block producers before the overflow policy page "
            f"({words['overflow'].describe()}) sends anything to the disk; leave one of them out"
        )
    full = words.get("page-full-policy")
    return PAGE["block" if full is None else full.text]


def overflow_name(words: dict[str, SettingValue]) -> str:
    """Return the name of the policy: the one set, or the one that follows from the name used for the capacity."""
    chosen = words.get("overflow")
    if chosen is not None:
        return chosen.text
    # `x-max-length` without `x-overflow` keeps the meaning that RabbitMQ's users ask for by that name.
    return "drop-head" if any(name in words for name in LENGTHS) else "block"


def limiting(queue: str, words: dict[str, SettingValue], overflow: OverflowPolicy) -> dict[str, SettingValue]:
    """Return the settings of the limits as they count with an overflow policy.

    Raises PreconditionFailed (406) for settings of one source that contradict each other.
    """
    if not overflow.counts_ready:
        words = lengths_as_capacity(queue, words)
    if overflow.drops:
        return _without_thresholds(queue, words, overflow)
    return words if overflow.pages else with_derived_capacity(words)


def _is_threshold(item: tuple[str, SettingValue]) -> bool:
    """Return whether a setting is a threshold that was given for this queue, or for a pattern of it."""
    return item[0].startswith(("stop-", "resume-")) and is_explicit(item[1]) and not item[1].none


def _without_thresholds(
    queue: str, words: dict[str, SettingValue], overflow: OverflowPolicy
) -> dict[str, SettingValue]:
    """Return the settings without thresholds: a ring deals with its capacity itself (Qpid C++).

    Raises PreconditionFailed (406) if the declaration has both.
    """
    ring = words.get("overflow") or words.get("max-length") or words["max-length-bytes"]
    for name, word in words.items():
        if word.origin == ring.origin == ARGUMENT and _is_threshold((name, word)):
            raise PreconditionFailed(
                f"queue '{queue}': {word.describe()} has no effect with the overflow policy {overflow.name} "
                f"({ring.describe()}), which drops the oldest messages and blocks no producer; leave one of them out"
            )
    return {name: word for name, word in words.items() if not name.startswith(("stop-", "resume-"))}


def _qpid_has_thresholds(words: dict[str, SettingValue]) -> bool:
    """Return whether the policy is Qpid C++'s reject or self-destruct, and the limit by its name.

    There all queues with limits have thresholds, except rings (QueueFlowLimit.cpp).
    """
    policy = words.get("overflow")
    if policy is None or policy.alias != "qpid.policy_type" or policy.text not in ("reject", "self-destruct"):
        return False
    limits = [words.get("capacity-messages"), words.get("capacity-bytes")]
    return any(word is not None and word.alias.startswith(QPIDS) for word in limits)


def lengths_as_capacity(queue: str, words: dict[str, SettingValue]) -> dict[str, SettingValue]:
    """Return the settings with RabbitMQ's lengths as the capacity, for policies that are not RabbitMQ's.

    The smaller limit applies. Raises PreconditionFailed (406) if one source sets both, and they differ.
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
    """Return the capacity in bytes; None for no limit.

    The default applies only if no capacity is set in either unit; a threshold above it raises it.
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
            capacity = asked + asked // 4  # A default stop threshold of 80 % then equals the threshold asked for.
    return capacity


def hold_deadline_s(words: dict[str, SettingValue], defaults: Defaults) -> float:
    """Return the longest hold of a publish: seconds, infinity for no deadline."""
    word = words.get("hold-deadline")
    seconds = defaults.hold_deadline_s if word is None else word.real
    return seconds if seconds > 0 else NEVER


def _dead_letters(queue: str, settings: Settings, words: dict[str, SettingValue]) -> None:
    exchange, key = words.get("dead-letter-exchange"), words.get("dead-letter-routing-key")
    if exchange is not None:
        settings.dead_letter_exchange = exchange.text
    if key is not None:
        if exchange is None and key.origin == ARGUMENT:
            raise PreconditionFailed(f"queue '{queue}': {key.describe()} needs dead-letter-exchange, which is not set")
        settings.dead_letter_routing_key = key.text


def _consumers(subject: str, settings: Settings, words: dict[str, SettingValue]) -> None:
    """Set what concerns consumers. Raises PreconditionFailed for bounds of a window that contradict each other."""
    adaptive = words.get("consumer-window-adaptive")
    settings.consumer_window_adaptive = adaptive is not None and adaptive.text == "true"
    least, most = words.get("consumer-window-min"), words.get("consumer-window-max")
    if least is not None:
        settings.consumer_window_min = least.number
    if most is not None and not most.none:
        settings.consumer_window_max = most.number
        if most.number < settings.consumer_window_min:
            given = "consumer-window-min=1 (default)" if least is None else least.describe()
            raise PreconditionFailed(f"{subject}: {given} is above {most.describe()}")
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


def _lag_limit(words: dict[str, SettingValue]) -> LagLimit | None:
    messages, size = _most(words.get("cursor-max-lag-messages")), _most(words.get("cursor-max-lag-bytes"))
    age_s = _time(words.get("cursor-max-lag-age"), 1)
    if messages == UNLIMITED and size == UNLIMITED and age_s == NEVER:
        return None
    policy = words.get("cursor-max-lag-policy")
    return LagLimit(messages, size, age_s, policy is not None and policy.text == "detach")


def credit_messages(words: dict[str, SettingValue], otherwise: i64) -> i64:
    """Return the messages of a sender's window; UNLIMITED for no limit, `otherwise` if it is not set."""
    word = words.get("credit-window-messages")
    return otherwise if word is None else _most(word)


def credit_bytes(words: dict[str, SettingValue], otherwise: i64) -> i64:
    """Return the bytes of a sender's window; UNLIMITED for no limit, `otherwise` if it is not set."""
    word = words.get("credit-window-bytes")
    if word is None:
        return otherwise
    return UNLIMITED if word.number == UNBOUNDED else _most(word)


def credit_idle_s(words: dict[str, SettingValue], otherwise: float) -> float:
    """Return the seconds after which credit is idle; infinity for never, `otherwise` if it is not set."""
    word = words.get("credit-idle")
    if word is None:
        return otherwise
    return NEVER if word.none or word.real == 0 else word.real


def _most(word: SettingValue | None) -> int:
    return UNLIMITED if word is None or word.none else word.number


def _time(word: SettingValue | None, units: int) -> float:
    """Return a duration in seconds that was given in `units` a second; infinity for none."""
    return NEVER if word is None or word.none else word.real / units


def _rate(word: SettingValue | None) -> float:
    return NO_RATE if word is None or word.none else word.real
