"""The table of settings by pattern: names, kinds, scopes, defaults and meanings, and their names in other brokers.

Everything else is derived: what is read and how it is checked, arguments of declarations, keys of policies, the
resolved settings of a queue, what `penstock show` says, and docs/settings.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from penstock.settings.value import (
    BURST,
    BYTES,
    COUNT,
    CREDIT_WINDOW,
    EXPIRES,
    FREE,
    LAG,
    LIMIT,
    MEMORY,
    MILLISECONDS,
    NAME,
    NO_RATE,
    NOT_SET,
    NUMBER_MAX,
    OVERFLOW,
    PAGE_FULL,
    PERCENT,
    PERIOD,
    QUOTA,
    RATE,
    SECONDS,
    SLOW,
    SWITCH,
    TIMEOUT,
    UNBOUNDED,
    WEIGHT,
    WINDOW,
    Kind,
)

CAPACITY_BYTES: Final = 100 * 1024 * 1024
"""100 MiB: Qpid C++'s default. A broker that cannot be overrun has no unlimited queue by default."""
STOP_PERCENT: Final = 80.0
RESUME_PERCENT: Final = 70.0
HOLD_DEADLINE_S: Final = 30.0
CREDIT_WINDOW_MESSAGES: Final = 1000
CREDIT_WINDOW_BYTES: Final = 1_048_576
"""Window of a link that publishes to a queue."""
CREDIT_IDLE_S: Final = 0.1
"""Seconds without a message after which a sender's credit is idle."""
WITHOUT_FIELD: Final = "without a field"
"""Default of a setting that is resolved together with others."""


@dataclass(frozen=True)
class Setting:
    """One setting. In several scopes its meaning is of all messages that a scope covers.

    Further names are those of Qpid C++, Broker-J, Artemis and others, with a space between two. `NAME=0` is a name for
    which 0 is none; `SCOPE:NAME` is valid in patterns of that scope only, and so is every name of a setting that is
    not one of queues.
    """

    name: str
    kind: Kind
    scopes: str
    """Kinds of objects that have it: scopes of patterns, and `consumer` or `link` if those may set it themselves."""
    meaning: str
    default: object = WITHOUT_FIELD
    """Value of its field in `core.queue.queue_settings.Settings` without it."""
    qpid: str = ""
    java: str = ""
    artemis: str = ""
    other: str = ""
    minus: bool = False
    """True if -1 is none by its own name, as by the equivalent of Artemis or RabbitMQ."""
    smallest: bool = False
    """True for a limit of which the smallest applies, of an argument and policies (rabbit_policies.erl)."""

    @property
    def field(self) -> str:
        """Name of the attribute that stores it; durations are in seconds."""
        return self.name.replace("-", "_") + ("_s" if self.kind.unit in ("ms", "s") else "")


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
    Setting("max-length-bytes", BYTES, "queue", "RabbitMQ's limit of the bytes of ready messages", smallest=True),
    Setting("overflow", OVERFLOW, "queue address", "what happens at the capacity", qpid="qpid.policy_type",
            java="overflowPolicy x-qpid-overflow-policy", artemis="address-full-policy"),
    Setting("page-limit-messages", COUNT, "queue", "most messages that a paging queue has on the disk", minus=True),
    Setting("page-limit-bytes", BYTES, "queue", "most bytes of them", minus=True),
    Setting("page-full-policy", PAGE_FULL, "queue", "what happens at that limit"),
    Setting("hold-deadline", SECONDS, "queue vhost broker", "how long a publish may wait for a gate", HOLD_DEADLINE_S,
            other="broker:hold-deadline-s"),
    Setting("message-ttl", MILLISECONDS, "queue", "age at which a message expires", math.inf, smallest=True),
    Setting("expires", EXPIRES, "queue", "time without use after which the queue is deleted", math.inf, smallest=True),
    Setting("delivery-limit", COUNT, "queue", "how often a message may be redelivered; -1 is no limit", NOT_SET,
            minus=True, smallest=True),
    Setting("dead-letter-exchange", NAME, "queue", "exchange that gets dead letters", None),
    Setting("dead-letter-routing-key", NAME, "queue", "their routing key, instead of their own", None),
    Setting("consumer-timeout", TIMEOUT, "queue vhost broker", "time in which a delivery must be acknowledged", 1800.0,
            smallest=True),
    Setting("consumer-window-bytes", WINDOW, "queue consumer", "most unsettled bytes of a consumer", UNBOUNDED,
            artemis="default-consumer-window-size=-1 consumerWindowSize=-1", minus=True),
    Setting("consumer-window-adaptive", SWITCH, "queue", "whether the window follows the consumer's pace", False),
    Setting("consumer-window-min", BURST, "queue", "least messages of an adaptive window", 1),
    Setting("consumer-window-max", LIMIT, "queue", "most messages of an adaptive window", NUMBER_MAX),
    Setting("consumer-max-rate", RATE, "queue consumer", "most messages a second to a consumer", NO_RATE,
            artemis="consumerMaxRate=-1", minus=True),
    Setting("slow-consumer-rate", RATE, "queue consumer", "rate of settled messages below which a consumer is slow",
            NO_RATE, artemis="slow-consumer-threshold=-1", minus=True),
    Setting("slow-consumer-period", PERIOD, "queue consumer", "period of that rate", 5.0,
            artemis="slow-consumer-check-period"),
    Setting("slow-consumer-policy", SLOW, "queue consumer", "what happens to a slow consumer", "notify"),
    Setting("cursor-max-lag-messages", LIMIT, "queue", "most messages that a cursor may be behind", NUMBER_MAX),
    Setting("cursor-max-lag-bytes", QUOTA, "queue", "most bytes that a cursor may be behind", NUMBER_MAX),
    Setting("cursor-max-lag-age", SECONDS, "queue", "greatest age of the next message of a cursor", math.inf),
    Setting("cursor-max-lag-policy", LAG, "queue", "what happens to a cursor beyond", "tell"),
    Setting("credit-window-messages", BURST, "queue broker link", "most credit of a link that publishes",
            CREDIT_WINDOW_MESSAGES, artemis="amqpCredits"),
    Setting("credit-window-bytes", CREDIT_WINDOW, "queue broker link", "most bytes for which it has credit",
            CREDIT_WINDOW_BYTES, artemis="producerWindowSize=-1", minus=True),
    Setting("credit-idle", SECONDS, "queue broker link", "time without a message after which its credit is set aside",
            CREDIT_IDLE_S),
    Setting("auto-create", SWITCH, "queue", "whether a link of AMQP 1.0 creates the queue that it names", False,
            artemis="auto-create-queues"),
    Setting("rate-messages", RATE, "address user connection producer link", "most messages a second",
            artemis="producer:producerMaxRate=-1"),
    Setting("rate-bytes", RATE, "address user connection producer link", "most bytes a second"),
    Setting("burst-messages", BURST, "address user connection producer link",
            "messages that may come at once; without it one"),
    Setting("burst-bytes", BURST, "address user connection producer link",
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
)
# fmt: on
"""All settings, in the order of the documentation."""
BY_NAME: Final = {setting.name: setting for setting in SETTINGS}

SCOPES: Final[dict[str, dict[str, Kind]]] = {
    scope: {setting.name: setting.kind for setting in SETTINGS if scope in setting.scopes.split()}
    for scope in ("queue", "address", "vhost", "user", "connection", "producer", "broker")
}
"""The settings of each scope of patterns with their kinds.

Connections and producers (channels) are matched by their user's name. Percentages and the deadline of a virtual host
are also the defaults of its queues; those of the broker are the defaults of every virtual host and address, and its
windows and idle time of credit those of every queue.
"""
OURS: Final = tuple(SCOPES["queue"])
"""Arguments of a queue.declare, by the broker's own names."""
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
    """Attribute of `Setting` that has it."""
    scopes: tuple[str, ...]
    """Scopes of the only patterns that it is valid in; none: it is an argument of a queue."""
    none: str
    """The number that means none: 0, -1 or empty."""


def _aliases(setting: Setting) -> list[Alias]:
    found = []
    for broker in ("qpid", "java", "artemis", "other"):
        for text in getattr(setting, broker).split():
            scope, _, rest = text.rpartition(":")
            name, _, none = rest.partition("=")
            elsewhere = () if "queue" in setting.scopes.split() else tuple(setting.scopes.split())
            found.append(Alias(name, setting.name, broker, (scope,) if scope else elsewhere, none))
    return found


ALL_ALIASES: Final = tuple(alias for setting in SETTINGS for alias in _aliases(setting))
ALIASES: Final[dict[str, str]] = {alias.name: alias.ours for alias in ALL_ALIASES if not alias.scopes} | {
    "x-" + name: name for name in OURS
}
"""Arguments of a queue.declare by other names, with our own."""
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
"""Settings whose names in other brokers are of one queue: they mean nothing for a sum."""
JAVAS_CAPACITY: Final = frozenset({"capacity", "x-qpid-capacity"})
"""The Java broker's names for the bytes above which producers stop. The capacity here is derived, and lies above."""
MARKS_IN_BYTES: Final = ("capacity-bytes", "stop-bytes", "resume-bytes")
FOREIGN_BYTES: Final = frozenset(
    {alias.name for alias in ALL_ALIASES if alias.ours in MARKS_IN_BYTES} | {"max-length-bytes", "x-max-length-bytes"}
)
"""Limits in bytes by names of other brokers: they count properties and bodies, without this broker's overhead."""
OPENS_BELOW: Final = frozenset(
    alias.name for alias in ALL_ALIASES if alias.ours == "resume-percent" and alias.broker == "qpid"
)
"""Percentages of Qpid C++, which opens below its threshold (QueueFlowLimit.cpp), as its `qpid.flow_resume_*` do."""
LENGTHS: Final = {"max-length": "capacity-messages", "max-length-bytes": "capacity-bytes"}
"""RabbitMQ's limits of ready messages. With an overflow policy unknown to RabbitMQ they are the capacity."""
USAGE: Final = frozenset({"max-disk-usage", "store.filesystem.maxUsagePercent"})
"""Names that give the used share of the file system, in percent, instead of the free one."""
WITHOUT_BURST: Final = frozenset({"producerMaxRate"})
"""Names of rates beside which a burst has no effect: "never at a rate higher" (Artemis)."""
WHOLE_RATES: Final = frozenset({"consumerMaxRate", "producerMaxRate"})
"""Artemis' rates: a positive integer, or -1."""
ARTEMIS_SIZES: Final = ("max-size-bytes", "page-limit-bytes", "global-max-size", "default-consumer-window-size")
"""Names whose units are Artemis' own."""
