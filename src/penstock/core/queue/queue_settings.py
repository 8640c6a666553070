"""Resolved settings of a queue: thresholds, overflow policy, deadlines, dead-lettering; and of its consumers.

See docs/settings.md. Sources are the queue's arguments, policies, patterns of its name, its virtual host and the
broker; the first source that has a setting wins.
"""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from penstock.core.queue.overflow import PAGE
from penstock.core.queue.overflow.choice import Ways, choose, counts_ready, lengths_as_capacity
from penstock.core.queue.overflow.policy import OverflowPolicy
from penstock.core.settings.limits import (
    QPIDS,
    Defaults,
    check_percents,
    is_explicit,
    number_or_none,
    resolve_thresholds,
    with_derived_capacity,
)
from penstock.core.settings.policies import NO_POLICIES
from penstock.errors import PreconditionFailed
from penstock.flow.credit import UNBOUNDED
from penstock.flow.level import UNLIMITED, Level, Thresholds
from penstock.flow.timers import NEVER
from penstock.settings.table import ARGUMENT, BY_NAME, CAPACITIES, CONSUMERS, LENGTHS, WITH_FIELD, Setting, SettingValue

CANCEL: Final = "cancel"
"""Action on a slow consumer, in addition to the log line."""


class Settings:
    """The resolved settings of one queue. A setting with a field in `settings.table` has the type of its kind."""

    message_ttl_s: float
    """Message time to live in seconds; infinity for none."""
    expires_s: float
    """Seconds without use after which the queue expires; infinity for never."""
    consumer_timeout_s: float
    """Seconds within which a delivery must be acknowledged, or its channel is closed; infinity for no limit."""
    hold_deadline_s: float
    """Hold deadline in seconds; infinity for no deadline."""
    delivery_limit: i64
    """Most failed deliveries of a message; UNLIMITED for no limit, NOT_SET for the default of the queue's type."""
    retry_delay_s: float
    """Seconds until a failed delivery is tried again, doubled with each failure; 0 for at once."""
    retry_delay_max_s: float
    """Longest such time, in seconds."""
    dead_letter_exchange: str | None
    """Exchange for dead letters; None drops them."""
    dead_letter_routing_key: str | None
    """Routing key of dead letters; None keeps their own key."""
    dead_letter_strategy: str
    """ "at-most-once" or "at-least-once"."""
    group_by: str | None
    """Name of what has the group of a message: "group-id", or a header; None for no groups."""
    consumer_window_bytes: i64
    """Unsettled bytes that a consumer may have; 0 is one message at a time, -1 unbounded."""
    consumer_window_adaptive: bool
    """True if consumers have an adaptive window (see flow/credit.py)."""
    consumer_window_min: i64
    consumer_window_max: i64
    """Bounds of the adaptive window, in messages; UNLIMITED for no upper bound."""
    consumer_max_rate: float
    """Most messages a second of a consumer; -1 for no limit."""
    slow_consumer_rate: float
    """Messages a second below which a consumer is slow; -1 for never."""
    slow_consumer_period_s: float
    """Seconds of one measurement of slow consumers."""
    slow_consumer_policy: str
    """ "notify" or "cancel"."""
    cursor_max_lag_messages: i64
    cursor_max_lag_bytes: i64
    cursor_max_lag_age_s: float
    """Limits of the lag of the queue's cursors: messages, charges, and age of the oldest unsettled message in
    seconds.
    """
    cursor_max_lag_policy: str
    """ Action for a cursor beyond the lag limits: "detach" deletes it, "tell" logs it."""
    cursor_expires_s: float
    """Seconds without a reader after which a cursor of the queue expires; infinity for never."""
    credit_window_messages: i64
    credit_window_bytes: i64
    """Most credit of a sender, in messages and bytes, the smaller of the two; UNLIMITED for no limit."""
    credit_idle_s: float
    """Seconds after which idle credit is revoked if others wait; infinity for never."""
    alarm_gate_closed_s: float
    """Seconds after which the closed gate of the queue raises an alarm; infinity for never."""
    alarm_oldest_s: float
    """Age of the oldest ready message that raises an alarm, in seconds; infinity for never."""
    auto_create: bool
    """True if a link that names the queue creates it (AMQP 1.0)."""
    max_age_s: float
    """Age in seconds at which a stream drops a segment; infinity for none."""
    stream_max_segment_size_bytes: i64
    """Most bytes of a segment of a stream."""
    retain_time_s: float
    retain_bytes: i64
    """Age in seconds, and bytes of properties and bodies, up to which settled messages are retained; infinity and
    UNLIMITED if not set.
    """

    def __init__(self, thresholds: Thresholds, overflow: OverflowPolicy, values: dict[str, SettingValue]) -> None:
        self.thresholds = thresholds
        self.overflow = overflow
        """The policy at the capacity."""
        self.length = Level()
        """Limit of ready messages, in addition to the capacity: messages, and bytes of their bodies (see
        length_limit.py).
        """
        self.at_length = overflow
        """The policy at the length; without a length, the policy at the capacity."""
        self.page_limit = Level()
        """Limit of paged messages, if the policy is `page`."""
        self.log_bytes: i64 = UNLIMITED
        """Most bytes, properties and bodies, that a stream retains (its `max-length-bytes`)."""
        self.given: dict[str, SettingValue] = {}
        """Settings in the queue's own arguments."""
        self.policies = NO_POLICIES
        for setting in WITH_FIELD:
            setattr(self, setting.field, stored(setting, values, setting.default))
        bounded = self.cursor_max_lag_messages != UNLIMITED or self.cursor_max_lag_bytes != UNLIMITED
        self.limits_lag: bool = bounded or self.cursor_max_lag_age_s != NEVER
        """True if cursors have a limit of their lag."""
        self.watches_cursors: bool = self.limits_lag or self.cursor_expires_s != NEVER
        """True if cursors have a limit of their lag, or expire."""
        self.retains: bool = self.retain_time_s != NEVER or self.retain_bytes != UNLIMITED
        """True if settled messages are to be retained (retention.py)."""

    def set_common(self, values: dict[str, SettingValue], defaults: Defaults) -> None:
        """Set the hold deadline of the broker if no source has one, and the limit of what a stream retains."""
        if "hold-deadline" not in values:
            self.hold_deadline_s = defaults.hold_deadline_s if defaults.hold_deadline_s > 0 else NEVER
        self.log_bytes = _most(values.get(LENGTH_BYTES))


LENGTH_BYTES: Final = "max-length-bytes"
"""Name of the setting that limits ready messages, or what a stream retains."""


def stored(setting: Setting, values: dict[str, SettingValue], otherwise: object) -> Any:
    """Return the stored value of a setting; `otherwise` if the setting is not set."""
    value = values.get(setting.name)
    return otherwise if value is None else setting.resolved(value)


CONSUMER_TIMEOUT: Final = "consumer-timeout"
"""Name of the setting, as an argument of a consumer and as a property of a link."""


class ConsumerSettings:
    """The arguments of basic.consume, with the queue's present settings as defaults."""

    def __init__(self, settings: Settings, values: dict[str, SettingValue]) -> None:
        own: dict[str, Any] = {}
        for setting in CONSUMERS:
            own[setting.name] = stored(setting, values, getattr(settings, setting.field))
        self.window_bytes: i64 = own["consumer-window-bytes"]
        """Unsettled bytes (charges) that the consumer may have; 0 is one message at a time, -1 unbounded."""
        self.max_rate: float = own["consumer-max-rate"]
        """Most messages a second; -1 for no limit."""
        self.slow_rate: float = own["slow-consumer-rate"]
        """Messages a second below which the consumer is slow; -1 for never."""
        self.slow_period_s: float = own["slow-consumer-period"]
        self.slow_policy: str = own["slow-consumer-policy"]
        """Action on a slow consumer: notify or cancel."""
        self.timeout_s: float = stored(BY_NAME[CONSUMER_TIMEOUT], values, NEVER)
        """Seconds within which deliveries must be acknowledged, besides the queue's limit; infinity for the queue's
        limit alone.
        """
        self.adaptive: bool = settings.consumer_window_adaptive
        """True if the window is adaptive. Only the queue's settings enable this, and have its bounds."""
        self.window_least: i64 = settings.consumer_window_min
        self.window_most: i64 = settings.consumer_window_max
        """Bounds of the adaptive window, in messages; UNLIMITED for no upper bound."""

    def narrower_window(self, prefetch_bytes: i64) -> i64:
        """Return the narrower of the byte window and a prefetch in bytes (basic.qos prefetch-size; 0 is none)."""
        if prefetch_bytes == 0:
            return self.window_bytes
        if self.window_bytes == UNBOUNDED or prefetch_bytes < self.window_bytes:
            return prefetch_bytes
        return self.window_bytes


def resolve(queue: str, values: dict[str, SettingValue], defaults: Defaults) -> Settings:
    """Resolve the settings of a queue.

    Raises PreconditionFailed with one sentence that names queue, setting, value and rule.
    """
    subject = f"queue '{queue}'"
    check_percents(subject, values)
    values, ways = limiting(queue, values)
    overflow, length = ways.capacity, Level()
    if ways.length is not None:
        length = Level(_most(values.get("max-length")), _most(values.get(LENGTH_BYTES)))
    wanted = overflow.has_thresholds or _qpid_has_thresholds(values) or any(map(_is_threshold, values.items()))
    capacity = capacity_bytes(values, defaults)
    thresholds = resolve_thresholds(subject, values, capacity, defaults, wanted, overflow.pages, int(length.messages))
    settings = Settings(thresholds, overflow, values)
    settings.length = length
    settings.at_length = overflow if ways.length is None else ways.length
    settings.set_common(values, defaults)
    if overflow.pages:
        settings.page_limit = Level(_most(values.get("page-limit-messages")), _most(values.get("page-limit-bytes")))
    _check(subject, settings, values)
    return settings


def _check(subject: str, settings: Settings, values: dict[str, SettingValue]) -> None:
    """Raise PreconditionFailed (406) for settings that need, or contradict, another setting."""
    least, most = values.get("consumer-window-min"), values.get("consumer-window-max")
    if most is not None and settings.consumer_window_max < settings.consumer_window_min:
        given = "consumer-window-min=1 (default)" if least is None else least.describe()
        raise PreconditionFailed(f"{subject}: {given} is above {most.describe()}")
    key = values.get("dead-letter-routing-key")
    if key is not None and "dead-letter-exchange" not in values and key.origin == ARGUMENT:
        raise PreconditionFailed(f"{subject}: {key.describe()} needs dead-letter-exchange, which is not set")


def limiting(queue: str, values: dict[str, SettingValue]) -> tuple[dict[str, SettingValue], Ways]:
    """Return the settings of the limits in effect, and the overflow policies at them.

    Raises PreconditionFailed (406) for settings of one source that contradict each other.
    """
    if not counts_ready(values):
        values = lengths_as_capacity(queue, values)
    ways = choose(values)
    _check_pages(queue, values, ways.capacity)
    if ways.capacity.pages:
        full = values.get("page-full-policy")
        ways = Ways(PAGE["block" if full is None else full.text], None)
    if ways.capacity.drops:
        return _without_thresholds(queue, values, ways.capacity), ways
    if ways.length is not None and ways.length.drops:
        values = _without_thresholds_of_rings(queue, values)
    return (values if ways.capacity.pages else with_derived_capacity(values)), ways


def _check_pages(queue: str, values: dict[str, SettingValue], overflow: OverflowPolicy) -> None:
    """Raise PreconditionFailed (406) for settings that need paging, or that paging excludes."""
    if not overflow.pages:
        for limit in ("page-limit-messages", "page-limit-bytes", "page-full-policy"):
            if limit in values and values[limit].rank == 0:
                raise PreconditionFailed(
                    f"queue '{queue}': {values[limit].describe()} needs the overflow policy page, not {overflow.name}"
                )
        return
    for _, value in filter(_is_threshold, values.items()):
        raise PreconditionFailed(
            f"queue '{queue}': {value.describe()} would block producers before the overflow policy page "
            f"({values['overflow'].describe()}) sends anything to the disk; leave one of them out"
        )


def _is_threshold(item: tuple[str, SettingValue]) -> bool:
    """Return whether a setting is a threshold that was given for this queue, or for a pattern of it."""
    return item[0].startswith(("stop-", "resume-")) and is_explicit(item[1]) and not item[1].none


def _without_thresholds(
    queue: str, values: dict[str, SettingValue], overflow: OverflowPolicy
) -> dict[str, SettingValue]:
    """Return the settings without thresholds: a ring needs none at its capacity (Qpid C++).

    Raises PreconditionFailed (406) if the declaration has both.
    """
    ring = values["overflow"]
    for name, value in values.items():
        if value.origin == ring.origin == ARGUMENT and _is_threshold((name, value)):
            raise PreconditionFailed(
                f"queue '{queue}': {value.describe()} has no effect with the overflow policy {overflow.name} "
                f"({ring.describe()}), which drops the oldest messages and blocks no producer; leave one of them out"
            )
    return {name: value for name, value in values.items() if not name.startswith(("stop-", "resume-"))}


def _without_thresholds_of_rings(queue: str, values: dict[str, SettingValue]) -> dict[str, SettingValue]:
    """Return the settings of a queue with a length that drops, without thresholds that no stronger source set.

    Without a capacity, thresholds have no meaning. Raises PreconditionFailed (406) if the declaration has a length and
    thresholds alone.
    """
    if any(is_explicit(value) and not value.none for value in map(values.get, CAPACITIES) if value is not None):
        return values
    lengths = [values[name] for name in LENGTHS if name in values and not values[name].none]
    strongest = min(lengths, key=lambda value: value.rank)
    result: dict[str, SettingValue] = {}
    for name, value in values.items():
        if not _is_threshold((name, value)) or name.endswith("-percent") or value.rank < strongest.rank:
            result[name] = value
        elif value.origin == ARGUMENT:
            raise PreconditionFailed(
                f"queue '{queue}': {value.describe()} has no effect with {strongest.describe()}, which drops the "
                "oldest messages and blocks no producer; leave one of them out, or give a capacity as well"
            )
    return result


def _qpid_has_thresholds(values: dict[str, SettingValue]) -> bool:
    """Return whether the policy is Qpid C++'s reject or self-destruct, and the limit has Qpid C++'s name.

    In Qpid C++ all queues with limits have thresholds, except rings (QueueFlowLimit.cpp).
    """
    policy = values.get("overflow")
    if policy is None or policy.alias != "qpid.policy_type" or policy.text not in ("reject", "self-destruct"):
        return False
    limits = [values.get("capacity-messages"), values.get("capacity-bytes")]
    return any(value is not None and value.alias.startswith(QPIDS) for value in limits)


def capacity_bytes(values: dict[str, SettingValue], defaults: Defaults) -> int | None:
    """Return the capacity in bytes; None for no limit.

    The default applies only if no capacity is set in either unit; a threshold above the default raises it. A length
    also raises it, because it counts bodies only: the stop must be above the length's messages with their properties
    and overhead.
    """
    value = values.get("capacity-bytes")
    if is_explicit(value):
        return number_or_none(value)
    if number_or_none(values.get("capacity-messages")) is not None:
        return None
    capacity = defaults.capacity_bytes if value is None else number_or_none(value)
    if capacity is None:
        return None
    for name in ("stop-bytes", "resume-bytes"):
        asked = number_or_none(values.get(name))
        if asked is not None and asked > capacity:
            capacity = asked + asked // 4  # A default stop threshold of 80 % then equals the requested threshold.
    length = number_or_none(values.get(LENGTH_BYTES))
    return capacity if length is None else min(max(capacity, 2 * length), UNLIMITED - 1)


def _most(value: SettingValue | None) -> int:
    return UNLIMITED if value is None or value.none else value.number
