"""The table of settings by pattern: names, kinds, scopes, defaults, meanings, values, and their names in other brokers.

The following are derived from this table: the parsing and checks of settings, arguments of declarations, keys of
policies, the resolved settings of a queue, the output of `penstock show`, and docs/settings.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from penstock.settings.kind import (
    MILLISECONDS_MOST,
    NO_NONE,
    NUMBER_MOST,
    Age,
    Choices,
    Flag,
    Kind,
    Number,
    Text,
)
from penstock.settings.lengths import NAME_MAX
from penstock.texts import SCOPE_NOUNS, worded

NUMBER_MAX: Final = NUMBER_MOST + 1
"""A limit above every number, because 64-bit arithmetic of depths could overflow there; "no limit" as a number."""
MILLISECONDS_MAX: Final = MILLISECONDS_MOST
UNBOUNDED: Final = -1
"""An unbounded window of a consumer: the default of AMQP 0-9-1 (section 1.8.3.1)."""
NO_RATE: Final = -1.0
""""No limit" for rates, as in Artemis."""
NOT_SET: Final = -1
"""A delivery limit that is not set: the default depends on the type of the queue."""
ARGUMENT: Final = "argument"
POLICY: Final = "policy"
PATTERN: Final = "pattern"
VHOST: Final = "vhost"
BROKER: Final = "broker"
DEFAULT: Final = "default"
"""Sources of a value, the strongest first; only a pattern's override is stronger."""


@dataclass(frozen=True)
class SettingValue:
    """A setting's value, by the broker's own name."""

    alias: str
    """The name used."""
    raw: object
    """The value as given, for messages."""
    number: int = 0
    """Whole numbers; -1 is an unbounded window."""
    real: float = 0.0
    """A number that may be a fraction: percentages, seconds, rates, and a share of the host's memory."""
    text: str = ""
    """A policy; "%" for a share of the host's memory."""
    none: bool = False
    """No limit (a resume threshold is the stop then)."""
    origin: str = ARGUMENT
    pattern: str = ""
    """The pattern or the policy for which the value was set, if that is its source."""
    vhost: str | None = None
    """Virtual host of that pattern; None for all."""
    by: str = ""
    """"command", "override" or "file", if the source is not an argument; "policy" or "operator policy"."""
    place: str = ""
    """Position in the settings file: " line 7"."""
    rank: int = 0
    """Rank of the source, the smaller the stronger: 0 is an argument."""
    override: bool = False
    """True if the value was set by command to be stronger than arguments and policies."""
    beside: frozenset[str] = frozenset()
    """Of an overflow policy in effect: the limits that its source also sets (LENGTHS, CAPACITIES)."""

    def with_source(self, origin: str, pattern: str, by: str, rank: int, vhost: str | None = None) -> SettingValue:
        """Return a copy with a source and its rank."""
        return replace(self, origin=origin, pattern=pattern, by=by, rank=rank, vhost=vhost)

    def with_number(self, number: int) -> SettingValue:
        """Return a copy with another number, such as the bytes of a percentage."""
        return replace(self, number=number, real=float(number), text="")

    def overriding(self) -> SettingValue:
        """Return a copy that is stronger than arguments and policies."""
        return replace(self, override=True)

    def with_limits(self, source: Mapping[str, SettingValue]) -> SettingValue:
        """Return a copy of an overflow policy with the limits of its source."""
        names = [name for name in (*LENGTHS, *CAPACITIES) if name in source and not source[name].none]
        return replace(self, beside=frozenset(names))

    def has_source_of(self, other: SettingValue) -> bool:
        """Return whether both values have the same source: the arguments, one policy, or one pattern."""
        return (self.origin, self.pattern, self.by, self.vhost) == (other.origin, other.pattern, other.by, other.vhost)

    def at(self, place: str) -> SettingValue:
        """Return a copy with a position in the settings file."""
        return replace(self, place=place)

    def value(self) -> object:
        """Return the part that must be equal if two names of one setting are given."""
        return None if self.none else (self.number, self.real, self.text)

    def describe(self) -> str:
        """Return the value as given, with its source unless the source is the declaration."""
        return f"{self.alias}={shown(self.raw)}" + ("" if self.origin == ARGUMENT else f" ({self.source()})")

    def source(self) -> str:
        """Return the source as a clause."""
        if self.origin == POLICY:
            return f"{self.by} '{self.pattern}'"
        if self.origin == PATTERN:
            of = "" if self.vhost is None else f" of vhost '{self.vhost}'"
            return f"pattern '{self.pattern}'{of}, set by {self.by}{self.place}"
        if self.origin == VHOST:
            return f"vhost pattern '{self.pattern}', set by {self.by}{self.place}"
        if self.origin == BROKER:
            return f"broker, set by {self.by}{self.place}"
        return "declared" if self.origin == ARGUMENT else "default"


def shown(value: object, quoted: bool = False) -> str:
    """Return a value as text for a message; text that is not a number in quotes, if `quoted`."""
    return worded(value, quoted)


# fmt: off
OVERFLOW_ALIASES: Final = {
    "block": "block", "producer_flow_control": "block",  # Broker-J
    "drop-head": "drop-head", "ring": "drop-head", "ring-strict": "ring-strict", "ring_strict": "ring-strict",
    "reject": "reject", "reject-publish": "reject",
    "reject-dead-letter": "reject-dead-letter", "reject-publish-dlx": "reject-dead-letter",
    "drop-new": "drop-new", "self-destruct": "self-destruct", "self_destruct": "self-destruct",
    "page": "page", "flow_to_disk": "page", "flow-to-disk": "page",  # Qpid C++, until 2012
}
ARTEMIS_POLICIES: Final = {"drop": "drop-new", "fail": "reject"}
"""Further values of address-full-policy; DROP means the newest message only there."""
PAGE_FULL_POLICIES: Final = {"block": "block", "reject": "reject", "drop-new": "drop-new", **ARTEMIS_POLICIES}
"""Without one Artemis continues without a limit; Penstock holds."""
SLOW_POLICIES: Final = {"notify": "notify", "cancel": "cancel", "kill": "cancel"}
"""KILL is Artemis' term, which closes the consumer's connection; Penstock cancels the consumer."""
AT_MOST_ONCE: Final = "at-most-once"
AT_LEAST_ONCE: Final = "at-least-once"
STRATEGIES: Final = {AT_MOST_ONCE: AT_MOST_ONCE, AT_LEAST_ONCE: AT_LEAST_ONCE}
LAG_POLICIES: Final = {"tell": "tell", "detach": "detach"}

COUNT: Final = Number(none=NUMBER_MAX, values="messages, or `none`")
BYTES: Final = Number("bytes", none=NUMBER_MAX, values="bytes, `64MiB`, `4MB`, or `none`")
PERCENT: Final = Number(most=100, whole=False, noun="a percentage", none=NUMBER_MAX, values="percent, or `none`")
"""Percent of the capacity; none: no threshold is derived from the capacity."""
MILLISECONDS: Final = Number("ms", most=MILLISECONDS_MAX, none=math.inf,
                             values="milliseconds, `5s`, `30min`, or `none`")
RETRY: Final = MILLISECONDS.but(none=0, values="milliseconds, `5s`, `30min`; 0 and `none`: at once")
EXPIRES: Final = MILLISECONDS.but(least=1, zero="would delete the queue at once")
TIMEOUT: Final = MILLISECONDS.but(least=1, zero="leaves no time to acknowledge; use none for no timeout")
SECONDS: Final = Number("s", most=MILLISECONDS_MAX / 1000, whole=False, none=math.inf,
                        values="seconds, `5s`, `30min`; 0 and `none`: for ever")
PERIOD: Final = SECONDS.but(above=True, none=NO_NONE, values="seconds, `5s`, more than 0")
ALARM: Final = SECONDS.but(values="seconds, `5s`, `30min`; 0 and `none`: no alarm")
ALARM_DELAY: Final = MILLISECONDS.but(least=1, zero="would raise it always; use none for no alarm",
                                      values="milliseconds, `5s`, from 1; or `none`")
RATE: Final = Number(whole=False, above=True, none=NO_RATE, values="a second, more than 0; or `none`",
                     zero="would stop it for ever; use `penstock block`, or unset the rate")
RATE_BYTES: Final = RATE.but(unit="bytes")
BURST: Final = Number(least=1, values="from 1")
BURST_BYTES: Final = BURST.but(unit="bytes")
LIMIT: Final = Number(least=1, none=NUMBER_MAX, values="from 1, or `none`")
AGE: Final = Age(math.inf, "`7D`, `12h`, `30m`, or `none`")
RETAINED: Final = Number("bytes", 1, none=NUMBER_MAX, values="bytes, `10GB`, from 1; or `none`",
                         zero="would retain nothing; use none")
SEGMENT: Final = Number("bytes", 1, none=NO_NONE, values="bytes, `500MB`, from 1")
WINDOW: Final = Number("bytes", none=UNBOUNDED, values="bytes; 0: one message; -1 and `none`: unbounded")
"""As Artemis' consumerWindowSize."""
CREDIT_WINDOW: Final = WINDOW.but(none=NUMBER_MAX)
WEIGHT: Final = Number(least=1, most=100, values="1 to 100")
QUOTA: Final = Number("bytes", 1, none=NUMBER_MAX, values="bytes, from 1; or `none`",
                      zero="would stop everything for ever; use none for no quota")
MEMORY: Final = Number("bytes", none=NUMBER_MAX, also="1% to 100% of the machine's memory",
                       values="bytes, `40%` of the machine, or `none`")
FREE: Final = Number("bytes", none=NUMBER_MAX, also="1% to 100% of the file system",
                     values="bytes, `5%` of the file system, or `none`")
SWITCH: Final = Flag(values="`true`, `false`")
NAME: Final = Text(0, NAME_MAX, values="a name")
"""The name of an exchange, or a routing key: a short string (AMQP 0-9-1 section 4.2.5.3), which may be empty."""
GROUP: Final = Text(1, NAME_MAX, values="`group-id`, the name of a header, or `none`")
OVERFLOW: Final = Choices(OVERFLOW_ALIASES, article="an overflow policy", values="a policy")
SLOW: Final = Choices(SLOW_POLICIES, article="a policy for slow consumers", values="`notify`, `cancel`")
LAG: Final = Choices(LAG_POLICIES, article="a policy for cursors that are behind", values="`tell`, `detach`")
STRATEGY: Final = Choices(STRATEGIES, article="a strategy of dead letters", values="`at-most-once`, `at-least-once`")
PAGE_FULL: Final = Choices(PAGE_FULL_POLICIES, article="a policy for what may not be paged any more",
                          values="`block`, `reject`, `drop-new`")
# fmt: on


CAPACITY_BYTES: Final = 100 * 1024 * 1024
"""100 MiB: Qpid C++'s default. A broker that cannot be overrun has no unlimited queue by default."""
STOP_PERCENT: Final = 80.0
RESUME_PERCENT: Final = 70.0
HOLD_DEADLINE_S: Final = 25.0
CREDIT_WINDOW_MESSAGES: Final = 1000
CREDIT_WINDOW_BYTES: Final = 1_048_576
"""Window of a link that publishes to a queue."""
SEGMENT_BYTES: Final = 500_000_000
"""RabbitMQ's default size of a stream's segment."""
CREDIT_IDLE_S: Final = 0.1
"""Seconds without a message after which a sender's credit is idle."""
ALARM_GATE_CLOSED_S: Final = 300.0
"""Seconds after which a closed gate raises an alarm."""
ALARM_DEFAULTS: Final[dict[str, object]] = {
    "alarm-disk-low": "5%",
    "alarm-certificate": 2_592_000,
    "alarm-loop": 1000,
    "alarm-clear": 30,
}
"""Thresholds of alarms that only the broker has: 5 % of the file system, 30 days, a second, half a minute."""
BOTH: Final = "queue stream"
"""Types of a setting that applies to streams as to other queues."""
WITHOUT_FIELD: Final = "without a field"
"""Default of a setting that is resolved together with other settings."""


@dataclass(frozen=True)
class Setting:
    """One setting. In several scopes its meaning covers all messages of a scope.

    Further names are those of Qpid C++, Broker-J, Artemis and others, separated by spaces. `NAME=0` is a name for which
    0 means no limit; `SCOPE:NAME` is valid only in patterns of that scope, and so is every name of a setting that does
    not apply to queues.
    """

    name: str
    kind: Kind
    scopes: str
    """Kinds of objects with the setting: scopes of patterns, and `consumer` or `link` if these may set it
    themselves.
    """
    meaning: str
    default: object = WITHOUT_FIELD
    """Default of the field in `core.queue.queue_settings.Settings`."""
    qpid: str = ""
    java: str = ""
    artemis: str = ""
    other: str = ""
    minus: bool = False
    """True if -1 means none under the own name, as under the equivalent name of Artemis or RabbitMQ."""
    types: str = "queue"
    """Types of queues with the setting: `queue` for all except streams, `stream`, or both."""
    smallest: bool = False
    """True for a limit of which the smallest of an argument and policies applies (rabbit_policies.erl)."""

    @property
    def field(self) -> str:
        """Name of the attribute that stores the value; durations are in seconds."""
        is_time = isinstance(self.kind, Number) and self.kind.unit in ("ms", "s")
        return self.name.replace("-", "_") + ("_s" if is_time else "")

    def resolved(self, value: SettingValue) -> object:
        """Return the stored form of a value; durations are in seconds."""
        kind = self.kind
        if not isinstance(kind, Number):
            return value.text == "true" if isinstance(kind, Flag) else value.text
        if value.none or (kind.unit == "s" and value.real == 0):
            return kind.none
        if kind.unit == "ms":
            return value.real / 1000
        return value.number if kind.whole else value.real

    def shown(self, value: object) -> object:
        """Return a stored value in its written form, in the setting's unit; None for no limit."""
        kind = self.kind
        if isinstance(kind, Number) and kind.unit == "ms" and isinstance(value, float) and math.isfinite(value):
            return round(value * 1000)
        return kind.shown(value)


# fmt: off
SETTINGS: Final = (
    Setting("capacity-messages", COUNT, "queue address vhost", "most messages; beyond, the overflow policy decides",
            qpid="qpid.max_count=0", java="maximumQueueDepthMessages=-1 x-qpid-maximum-queue-depth-messages=-1",
            artemis="max-size-messages=-1", smallest=True),
    Setting("capacity-bytes", BYTES, "queue address vhost broker", "most bytes (charges)",
            qpid="qpid.max_size=0 broker:default-queue-limit=0",
            java="maximumQueueDepthBytes=-1 x-qpid-maximum-queue-depth-bytes=-1 x-qpid-capacity=0 capacity=0",
            artemis="max-size-bytes=-1", smallest=True),
    Setting("stop-messages", COUNT, "queue address vhost", "messages above which the gate closes",
            qpid="qpid.flow_stop_count=0"),
    Setting("stop-bytes", BYTES, "queue address vhost", "bytes above which the gate closes",
            qpid="qpid.flow_stop_size=0"),
    Setting("resume-messages", COUNT, "queue address vhost", "messages at which it opens again",
            qpid="qpid.flow_resume_count=0"),
    Setting("resume-bytes", BYTES, "queue address vhost", "bytes at which it opens again",
            qpid="qpid.flow_resume_size=0", java="x-qpid-flow-resume-capacity=0 flowResumeCapacity=0"),
    Setting("stop-percent", PERCENT, "queue address vhost broker", "the stop as a share of the capacity",
            qpid="default-flow-stop-threshold=0 flow_stop_threshold=0"),
    Setting("resume-percent", PERCENT, "queue address vhost broker", "the resume as a share of the capacity",
            qpid="default-flow-resume-threshold=0 flow_resume_threshold=0", java="queue.queueFlowResumeLimit"),
    Setting("max-length", COUNT, "queue", "RabbitMQ's limit of ready messages", smallest=True),
    Setting("max-length-bytes", BYTES, "queue", "RabbitMQ's limit of the bytes of ready messages", smallest=True,
            types=BOTH),
    Setting("max-age", AGE, "queue", "age at which a stream drops a segment", math.inf, smallest=True, types="stream"),
    Setting("stream-max-segment-size-bytes", SEGMENT, "queue", "most bytes of a segment of a stream",
            SEGMENT_BYTES, types="stream"),
    Setting("retain-time", AGE, "queue", "age up to which settled messages are retained, in the stream `NAME.retained`",
            math.inf),
    Setting("retain-bytes", RETAINED, "queue", "most bytes of these", NUMBER_MAX),
    Setting("overflow", OVERFLOW, "queue address", "what happens at the capacity", qpid="qpid.policy_type",
            java="overflowPolicy x-qpid-overflow-policy", artemis="address-full-policy"),
    Setting("page-limit-messages", COUNT, "queue", "most messages that a paging queue has on the disk", minus=True),
    Setting("page-limit-bytes", BYTES, "queue", "most bytes of them", minus=True),
    Setting("page-full-policy", PAGE_FULL, "queue", "what happens at that limit"),
    Setting("hold-deadline", SECONDS, "queue vhost broker", "how long a publish may wait for a gate", HOLD_DEADLINE_S,
            other="broker:hold-deadline-s", types=BOTH),
    Setting("message-ttl", MILLISECONDS, "queue", "age at which a message expires", math.inf, smallest=True),
    Setting("expires", EXPIRES, "queue", "time without use after which the queue is deleted", math.inf, smallest=True),
    Setting("delivery-limit", COUNT, "queue", "how often a message may be redelivered; -1 is no limit", NOT_SET,
            minus=True, smallest=True),
    Setting("retry-delay", RETRY, "queue", "time until a message whose delivery failed is delivered again; each "
            "failure doubles it", 0.0),
    Setting("retry-delay-max", RETRY, "queue", "longest such time", 3600.0),
    Setting("dead-letter-exchange", NAME, "queue", "exchange that gets dead letters", None),
    Setting("dead-letter-routing-key", NAME, "queue", "their routing key, instead of their own", None),
    Setting("dead-letter-strategy", STRATEGY, "queue",
            "whether a dead letter without room is lost at the hold deadline, or waits", AT_MOST_ONCE),
    Setting("group-by", GROUP, "queue",
            "what names a message's group: `group-id`, or a header; a group goes to one consumer at a time", None,
            qpid="qpid.group_header_key", java="messageGroupKeyOverride"),
    Setting("consumer-timeout", TIMEOUT, "queue consumer vhost broker",
            "time in which a delivery must be acknowledged", 1800.0, smallest=True, types=BOTH),
    Setting("consumer-window-bytes", WINDOW, "queue consumer", "most unsettled bytes of a consumer", UNBOUNDED,
            artemis="default-consumer-window-size=-1 consumerWindowSize=-1", minus=True, types=BOTH),
    Setting("consumer-window-adaptive", SWITCH, "queue", "whether the window follows the consumer's pace", False,
            types=BOTH),
    Setting("consumer-window-min", BURST, "queue", "least messages of an adaptive window", 1, types=BOTH),
    Setting("consumer-window-max", LIMIT, "queue", "most messages of an adaptive window", NUMBER_MAX, types=BOTH),
    Setting("consumer-max-rate", RATE, "queue consumer", "most messages a second to a consumer", NO_RATE,
            artemis="consumerMaxRate=-1", minus=True, types=BOTH),
    Setting("slow-consumer-rate", RATE, "queue consumer", "rate of settled messages below which a consumer is slow",
            NO_RATE, artemis="slow-consumer-threshold=-1", minus=True, types=BOTH),
    Setting("slow-consumer-period", PERIOD, "queue consumer", "period of that rate", 5.0,
            artemis="slow-consumer-check-period", types=BOTH),
    Setting("slow-consumer-policy", SLOW, "queue consumer", "what happens to a slow consumer", "notify", types=BOTH),
    Setting("cursor-max-lag-messages", LIMIT, "queue", "most messages that a cursor may be behind", NUMBER_MAX,
            types=BOTH),
    Setting("cursor-max-lag-bytes", QUOTA, "queue", "most bytes that a cursor may be behind", NUMBER_MAX, types=BOTH),
    Setting("cursor-max-lag-age", SECONDS, "queue", "greatest age of the next message of a cursor", math.inf,
            types=BOTH),
    Setting("cursor-max-lag-policy", LAG, "queue", "what happens to a cursor beyond", "tell", types=BOTH),
    Setting("cursor-expires", SECONDS, "queue", "time without a reader after which a cursor of the queue is deleted",
            math.inf, types=BOTH),
    Setting("credit-window-messages", BURST, "queue broker link", "most credit of a link that publishes",
            CREDIT_WINDOW_MESSAGES, artemis="amqpCredits", types=BOTH),
    Setting("credit-window-bytes", CREDIT_WINDOW, "queue broker link", "most bytes for which it has credit",
            CREDIT_WINDOW_BYTES, artemis="producerWindowSize=-1", minus=True, types=BOTH),
    Setting("credit-idle", SECONDS, "queue broker link", "time without a message after which its credit is set aside",
            CREDIT_IDLE_S, types=BOTH),
    Setting("auto-create", SWITCH, "queue", "whether a link of AMQP 1.0 creates the queue that it names", False,
            artemis="auto-create-queues", types=BOTH),
    Setting("rate-messages", RATE, "address user connection producer link", "most messages a second",
            artemis="producer:producerMaxRate=-1"),
    Setting("rate-bytes", RATE_BYTES, "address user connection producer link", "most bytes a second"),
    Setting("burst-messages", BURST, "address user connection producer link",
            "messages that may come at once; without it one"),
    Setting("burst-bytes", BURST_BYTES, "address user connection producer link",
            "bytes that may come at once; without it a second of the rate"),
    Setting("weight", WEIGHT, "user", "share of the turns of waiting publishers"),
    Setting("memory-capacity", MEMORY, "broker", "most memory of all messages", artemis="global-max-size=-1"),
    Setting("memory-stop", MEMORY, "broker", "memory above which the gate closes"),
    Setting("memory-resume", MEMORY, "broker", "memory at which it opens again"),
    Setting("disk-overfull", QUOTA, "vhost broker", "stored bytes above which publishers wait",
            java="storeOverfullSize=0 overfull-size=0"),
    Setting("disk-underfull", QUOTA, "vhost broker", "stored bytes at which they go on",
            java="storeUnderfullSize=0 underfull-size=0"),
    Setting("min-disk-free", FREE, "broker", "space of the file system that stays free",
            java="store.filesystem.maxUsagePercent=0", artemis="max-disk-usage=-1",
            other="disk_free_limit disk_free_limit.absolute"),
    Setting("alarm-gate-closed", ALARM, "queue address user vhost broker",
            "time after which a closed gate raises an alarm",
            ALARM_GATE_CLOSED_S),
    Setting("alarm-oldest", ALARM, "queue vhost broker", "age of the oldest ready message that raises an alarm",
            math.inf),
    Setting("alarm-disk-low", FREE, "broker", "space before a gate of the disk closes, below which an alarm is raised"),
    Setting("alarm-certificate", PERIOD, "broker", "time before a certificate ends, from which an alarm is raised"),
    Setting("alarm-loop", ALARM_DELAY, "broker", "delay of the event loop that raises an alarm"),
    Setting("alarm-clear", PERIOD, "broker", "time for which a condition must be gone before its alarm is cleared"),
)
# fmt: on
"""All settings, in the order of the documentation."""
BY_NAME: Final = {setting.name: setting for setting in SETTINGS}

SCOPES: Final[dict[str, dict[str, Kind]]] = {
    scope: {setting.name: setting.kind for setting in SETTINGS if scope in setting.scopes.split()}
    for scope in SCOPE_NOUNS
}
"""The settings of each scope of patterns with their kinds.

Connections and producers (channels) are matched by their user's name. Percentages and the deadline of a virtual host
are also the defaults of its queues; those of the broker are the defaults of every virtual host and address, and its
windows and idle time of credit those of every queue.
"""
OURS: Final = tuple(SCOPES["queue"])
"""Arguments of a queue.declare, by the broker's own names."""
OF_STREAMS: Final = tuple(setting.name for setting in SETTINGS if setting.types == "stream")
"""Settings of streams alone."""
FOR_STREAMS: Final = frozenset(setting.name for setting in SETTINGS if "stream" in setting.types.split())
"""Settings that apply to streams."""
WITH_FIELD: Final = tuple(setting for setting in SETTINGS if setting.default is not WITHOUT_FIELD)
"""The settings of queues that each have a field of their own."""
CONSUMERS: Final = tuple(setting for setting in SETTINGS if "consumer" in setting.scopes.split())
"""Settings that a consumer may set for itself."""
LINKS: Final = tuple(setting.name for setting in SETTINGS if "link" in setting.scopes.split())
"""Settings that an incoming link may set for itself: of its credit, and of its rates, which it can only lower."""
CREDITS: Final = tuple(name for name in LINKS if name in SCOPES["broker"])
RATES: Final = tuple(SCOPES["producer"])
"""Settings that a sender may set for itself."""
SMALLEST: Final = frozenset(setting.name for setting in SETTINGS if setting.smallest)


@dataclass(frozen=True)
class Alias:
    """Name of a setting in another broker."""

    name: str
    ours: str
    broker: str
    """Attribute of `Setting` with the name."""
    scopes: tuple[str, ...]
    """Scopes in whose patterns alone the name is valid; none: it is an argument of a queue."""
    none: str
    """The number that means none: 0, -1 or empty."""


def _aliases(setting: Setting) -> list[Alias]:
    aliases = []
    for broker in ("qpid", "java", "artemis", "other"):
        for text in getattr(setting, broker).split():
            scope, _, rest = text.rpartition(":")
            name, _, none = rest.partition("=")
            elsewhere = () if "queue" in setting.scopes.split() else tuple(setting.scopes.split())
            aliases.append(Alias(name, setting.name, broker, (scope,) if scope else elsewhere, none))
    return aliases


ALL_ALIASES: Final = tuple(alias for setting in SETTINGS for alias in _aliases(setting))
ALIASES: Final[dict[str, str]] = {alias.name: alias.ours for alias in ALL_ALIASES if not alias.scopes} | {
    "x-" + name: name for name in OURS
}
"""Arguments of a queue.declare by other names, with the broker's own names."""
SCOPED_ALIASES: Final[dict[str, dict[str, str]]] = {
    scope: {alias.name: alias.ours for alias in ALL_ALIASES if scope in alias.scopes}
    for scope in ("broker", "vhost", "producer")
}
"""Names that are valid only in patterns of one scope, not in a declaration."""
ZERO_IS_NONE: Final = frozenset(alias.name for alias in ALL_ALIASES if alias.none == "0")
"""Names in Qpid C++ and Broker-J for which 0 means "none".

In Qpid C++ and by the Java broker's pair: no capacity, no stop, or a resume equal to the stop. In Broker-J: no quota,
an underfull of 90 %, or no minimum of free space.
"""
_MINUS: Final = tuple(setting.name for setting in SETTINGS if setting.minus)
NEGATIVE_IS_NONE: Final = frozenset(
    (*_MINUS, *["x-" + name for name in _MINUS], *[alias.name for alias in ALL_ALIASES if alias.none == "-1"])
)
"""Names for which -1 means "no limit": Broker-J's, Artemis' and RabbitMQ's, and the broker's own equivalents."""
LIMITS_OF_QUEUES: Final = frozenset(
    f"{mark}-{unit}" for mark in ("capacity", "stop", "resume") for unit in ("messages", "bytes")
)
"""Settings whose names in other brokers refer to one queue: they have no meaning for a sum."""
JAVAS_CAPACITY: Final = frozenset({"capacity", "x-qpid-capacity"})
"""The Java broker's names for the bytes above which producers stop. Penstock derives a larger capacity."""
MARKS_IN_BYTES: Final = ("capacity-bytes", "stop-bytes", "resume-bytes")
FOREIGN_BYTES: Final = frozenset(
    {alias.name for alias in ALL_ALIASES if alias.ours in MARKS_IN_BYTES} | {"max-length-bytes", "x-max-length-bytes"}
)
"""Limits in bytes by names of other brokers: they count properties and bodies, without Penstock's overhead."""
OPENS_BELOW: Final = frozenset(
    alias.name for alias in ALL_ALIASES if alias.ours == "resume-percent" and alias.broker == "qpid"
)
"""Percentages of Qpid C++, which opens below its threshold (QueueFlowLimit.cpp), like its `qpid.flow_resume_*`."""
RETENTIONS: Final[tuple[str, ...]] = ("retain-time", "retain-bytes")
"""Limits of settled messages; with any of them a queue retains these."""
LENGTHS: Final = {"max-length": "capacity-messages", "max-length-bytes": "capacity-bytes"}
"""RabbitMQ's limits of ready messages. With an overflow policy unknown to RabbitMQ they are the capacity."""
CAPACITIES: Final = ("capacity-messages", "capacity-bytes")
USAGE: Final = frozenset({"max-disk-usage", "store.filesystem.maxUsagePercent"})
"""Names for the used share of the file system, in percent, instead of the free share."""
WITHOUT_BURST: Final = frozenset({"producerMaxRate"})
"""Names of rates that ignore a burst: "never at a rate higher" (Artemis)."""
WHOLE_RATES: Final = frozenset({"consumerMaxRate", "producerMaxRate"})
"""Artemis' rates: a positive integer, or -1."""
ARTEMIS_SIZES: Final = ("max-size-bytes", "page-limit-bytes", "global-max-size", "default-consumer-window-size")
"""Names with Artemis' own units."""
