"""The settings of each scope with their kinds, and their names in other brokers."""

from __future__ import annotations

from typing import Final

COUNT: Final = "count"
"""Messages: a whole number from 0, or none."""
BYTES: Final = "bytes"
"""A whole number from 0, or one with KiB, MiB, GiB or TiB; or none."""
PERCENT: Final = "percent"
"""Percent of the capacity, 0 to 100; or none: no threshold follows from the capacity."""
POLICY: Final = "policy"
SECONDS: Final = "seconds"
"""Seconds from 0; 0 and none mean no limit."""
PERIOD: Final = "period"
"""Seconds, more than 0."""
MILLISECONDS: Final = "milliseconds"
RATE: Final = "rate"
"""An amount a second, more than 0; or none."""
BURST: Final = "burst"
"""An amount at once, from 1."""
LIMIT: Final = "limit"
"""Messages, from 1; or none."""
WINDOW: Final = "window"
"""Bytes from 0, where 0 is one message at a time; -1 and none are unbounded (Artemis, consumerWindowSize)."""
SLOW: Final = "slow"
"""The action on a slow consumer: notify or cancel."""
LAG: Final = "lag"
"""The action on a cursor that is too far behind: tell or detach."""
NAME: Final = "name"
"""The name of an exchange, or a routing key: a short string (AMQP 0-9-1 section 4.2.5.3), which may be empty."""
PAGE_FULL: Final = "page-full"
"""The policy for a message that exceeds the page limit: block, reject or drop-new."""
WEIGHT: Final = "weight"
SWITCH: Final = "switch"
"""True or false."""
MEMORY: Final = "memory"
"""Bytes, or "40%" of the host's memory; or none."""

FREE: Final = "free"
"""Bytes, or "5%" of the file system; or none."""
QUOTA: Final = "quota"
"""Bytes, from 1; or none."""

_MARKS: Final = {
    "capacity-messages": COUNT,
    "capacity-bytes": BYTES,
    "stop-messages": COUNT,
    "stop-bytes": BYTES,
    "resume-messages": COUNT,
    "resume-bytes": BYTES,
}
LIMITS_OF_QUEUES: Final = frozenset(_MARKS)
"""Settings whose names in other brokers are of one queue: they mean nothing for a sum."""
_PERCENTS: Final = {"stop-percent": PERCENT, "resume-percent": PERCENT}
_QUOTA: Final = {"disk-overfull": QUOTA, "disk-underfull": QUOTA}
_RATES: Final = {"rate-messages": RATE, "rate-bytes": RATE, "burst-messages": BURST, "burst-bytes": BURST}
_CREDIT: Final = {"credit-window-messages": BURST, "credit-window-bytes": WINDOW, "credit-idle": SECONDS}

SCOPES: Final[dict[str, dict[str, str]]] = {
    "queue": {
        **_MARKS,
        **_PERCENTS,
        "max-length": COUNT,
        "max-length-bytes": BYTES,
        "overflow": POLICY,
        "page-limit-messages": COUNT,
        "page-limit-bytes": BYTES,
        "page-full-policy": PAGE_FULL,
        "hold-deadline": SECONDS,
        "message-ttl": MILLISECONDS,
        "expires": MILLISECONDS,
        "delivery-limit": COUNT,
        "dead-letter-exchange": NAME,
        "dead-letter-routing-key": NAME,
        "consumer-timeout": MILLISECONDS,
        "consumer-window-bytes": WINDOW,
        "consumer-window-adaptive": SWITCH,
        "consumer-window-min": BURST,
        "consumer-window-max": LIMIT,
        "consumer-max-rate": RATE,
        "slow-consumer-rate": RATE,
        "slow-consumer-period": PERIOD,
        "slow-consumer-policy": SLOW,
        "cursor-max-lag-messages": LIMIT,
        "cursor-max-lag-bytes": QUOTA,
        "cursor-max-lag-age": SECONDS,
        "cursor-max-lag-policy": LAG,
        **_CREDIT,
        "auto-create": SWITCH,
    },
    "address": {**_MARKS, **_PERCENTS, "overflow": POLICY, **_RATES},
    "vhost": {**_MARKS, **_PERCENTS, "hold-deadline": SECONDS, "consumer-timeout": MILLISECONDS, **_QUOTA},
    "user": {**_RATES, "weight": WEIGHT},
    "connection": _RATES,
    "producer": _RATES,
    "broker": {
        "capacity-bytes": BYTES,
        **_PERCENTS,
        "hold-deadline": SECONDS,
        "consumer-timeout": MILLISECONDS,
        **_CREDIT,
        "memory-capacity": MEMORY,
        "memory-stop": MEMORY,
        "memory-resume": MEMORY,
        **_QUOTA,
        "min-disk-free": FREE,
    },
}
"""The settings of each scope with their kinds.

Connections and producers (channels) are matched by their user's name. Percentages and the deadline of a virtual host
are also the defaults of its queues; those of the broker are the defaults of every virtual host and address, and its
windows and idle time of credit those of every queue.
"""

OURS: Final = tuple(SCOPES["queue"])
"""Arguments of a queue.declare, by the broker's own names."""

ALIASES: Final[dict[str, str]] = {
    # Qpid C++ (QueueSettings.cpp, QueueFlowLimit.cpp; the percentages are options of its broker)
    "qpid.max_count": "capacity-messages",
    "qpid.max_size": "capacity-bytes",
    "qpid.flow_stop_count": "stop-messages",
    "qpid.flow_stop_size": "stop-bytes",
    "qpid.flow_resume_count": "resume-messages",
    "qpid.flow_resume_size": "resume-bytes",
    "qpid.policy_type": "overflow",
    "default-flow-stop-threshold": "stop-percent",
    "default-flow-resume-threshold": "resume-percent",
    "flow_stop_threshold": "stop-percent",
    "flow_resume_threshold": "resume-percent",
    # Broker-J, today's names and those of its first flow control (Qpid 0.6)
    "maximumQueueDepthMessages": "capacity-messages",
    "maximumQueueDepthBytes": "capacity-bytes",
    "x-qpid-maximum-queue-depth-messages": "capacity-messages",
    "x-qpid-maximum-queue-depth-bytes": "capacity-bytes",
    "x-qpid-capacity": "capacity-bytes",
    "capacity": "capacity-bytes",
    "x-qpid-flow-resume-capacity": "resume-bytes",
    "flowResumeCapacity": "resume-bytes",
    "queue.queueFlowResumeLimit": "resume-percent",
    "overflowPolicy": "overflow",
    "x-qpid-overflow-policy": "overflow",
    # Artemis (address settings; consumers and producers have theirs as options of a connection too)
    "max-size-messages": "capacity-messages",
    "max-size-bytes": "capacity-bytes",
    "address-full-policy": "overflow",
    "auto-create-queues": "auto-create",
    "default-consumer-window-size": "consumer-window-bytes",
    "consumerWindowSize": "consumer-window-bytes",
    "consumerMaxRate": "consumer-max-rate",
    "slow-consumer-threshold": "slow-consumer-rate",
    "slow-consumer-check-period": "slow-consumer-period",
    "producerWindowSize": "credit-window-bytes",
    "amqpCredits": "credit-window-messages",
    # RabbitMQ
    "x-overflow": "overflow",
} | {"x-" + word: word for word in OURS}

_BROKER_JS_QUOTA: Final = {
    "storeOverfullSize": "disk-overfull",
    "storeUnderfullSize": "disk-underfull",
    "overfull-size": "disk-overfull",  # Until 0.30, in its XML
    "underfull-size": "disk-underfull",
}

SCOPED_ALIASES: Final[dict[str, dict[str, str]]] = {
    "broker": {
        "default-queue-limit": "capacity-bytes",  # Qpid C++
        "hold-deadline-s": "hold-deadline",
        "global-max-size": "memory-capacity",  # Artemis
        "max-disk-usage": "min-disk-free",
        "disk_free_limit": "min-disk-free",  # RabbitMQ
        "disk_free_limit.absolute": "min-disk-free",
        "store.filesystem.maxUsagePercent": "min-disk-free",  # Broker-J
        **_BROKER_JS_QUOTA,
    },
    "vhost": _BROKER_JS_QUOTA,
    "producer": {"producerMaxRate": "rate-messages"},  # Artemis
}
"""Names that are valid only in patterns of one scope, not in a declaration."""

JAVAS_CAPACITY: Final = frozenset({"capacity", "x-qpid-capacity"})
"""The Java broker's names for the bytes above which producers stop. The capacity here is derived, and lies above."""
MARKS_IN_BYTES: Final = ("capacity-bytes", "stop-bytes", "resume-bytes")
FOREIGN_BYTES: Final = frozenset(
    {alias for alias, ours in ALIASES.items() if ours in MARKS_IN_BYTES and alias != "x-" + ours}
    | {"default-queue-limit", "max-length-bytes", "x-max-length-bytes"}
)
"""Limits in bytes by names of other brokers: they count properties and bodies, without this broker's overhead."""
OPENS_BELOW: Final = frozenset({"flow_resume_threshold", "default-flow-resume-threshold"})
"""Percentages of Qpid C++, which opens below its threshold (QueueFlowLimit.cpp), as its `qpid.flow_resume_*` do."""

LENGTHS: Final = {"max-length": "capacity-messages", "max-length-bytes": "capacity-bytes"}
"""RabbitMQ's limits of ready messages. With an overflow policy unknown to RabbitMQ they are the capacity."""

ZERO_IS_NONE: Final = frozenset(
    {
        "qpid.max_count",
        "qpid.max_size",
        "qpid.flow_stop_count",
        "qpid.flow_stop_size",
        "qpid.flow_resume_count",
        "qpid.flow_resume_size",
        "capacity",
        "x-qpid-capacity",
        "flowResumeCapacity",
        "x-qpid-flow-resume-capacity",
        "default-queue-limit",
        "default-flow-stop-threshold",
        "default-flow-resume-threshold",
        "flow_stop_threshold",
        "flow_resume_threshold",
        "storeOverfullSize",
        "storeUnderfullSize",
        "overfull-size",
        "underfull-size",
        "store.filesystem.maxUsagePercent",
    }
)
"""Names in Qpid C++ and Broker-J for which 0 means "none".

In Qpid C++ and by the Java broker's pair: no capacity, no stop, or a resume equal to the stop. In Broker-J: no quota,
an underfull of 90 %, or no minimum of free space.
"""

USAGE: Final = frozenset({"max-disk-usage", "store.filesystem.maxUsagePercent"})
"""Names that give the used share of the file system, in percent, instead of the free one."""

NEGATIVE_IS_NONE: Final = frozenset(
    {
        "maximumQueueDepthMessages",
        "maximumQueueDepthBytes",
        "x-qpid-maximum-queue-depth-messages",
        "x-qpid-maximum-queue-depth-bytes",
        "max-size-messages",
        "max-size-bytes",
        "global-max-size",
        "max-disk-usage",
        "consumerMaxRate",
        "consumer-max-rate",
        "x-consumer-max-rate",
        "producerMaxRate",
        "slow-consumer-rate",
        "x-slow-consumer-rate",
        "slow-consumer-threshold",
        "consumer-window-bytes",
        "page-limit-messages",
        "x-page-limit-messages",
        "page-limit-bytes",
        "x-page-limit-bytes",
        "x-consumer-window-bytes",
        "consumerWindowSize",
        "default-consumer-window-size",
        "credit-window-bytes",
        "x-credit-window-bytes",
        "producerWindowSize",
        "delivery-limit",
        "x-delivery-limit",
    }
)
"""Names for which -1 means "no limit": Broker-J's, Artemis' and RabbitMQ's, and the broker's own equivalents."""

WITHOUT_BURST: Final = frozenset({"producerMaxRate"})
"""Names of rates beside which a burst has no effect: "never at a rate higher" (Artemis)."""

WHOLE_RATES: Final = frozenset({"consumerMaxRate", "producerMaxRate"})
"""Artemis' rates: a positive integer, or -1."""

OVERFLOW_ALIASES: Final = {
    "producer_flow_control": "block",  # Broker-J
    "drop-head": "drop-head",
    "ring": "drop-head",
    "ring-strict": "ring-strict",
    "ring_strict": "ring-strict",
    "reject-publish": "reject",
    "reject-publish-dlx": "reject-dead-letter",
    "reject-dead-letter": "reject-dead-letter",
    "block": "block",
    "reject": "reject",
    "drop-new": "drop-new",
    "self-destruct": "self-destruct",
    "self_destruct": "self-destruct",
    "page": "page",
    "flow_to_disk": "page",  # Qpid C++, until 2012
    "flow-to-disk": "page",
}
ARTEMIS_POLICIES: Final = {"drop": "drop-new", "fail": "reject"}
"""Further values of address-full-policy; DROP means the newest message only there."""

REFUSED_POLICIES: Final = {
    "none": "a queue without a policy would ignore its capacity; use block, reject or drop-head",
}
"""Known policies that this broker does not have, with the reason."""

PAGE_FULL_POLICIES: Final = {
    "block": "block",
    "reject": "reject",
    "drop-new": "drop-new",
    "fail": "reject",
    "drop": "drop-new",
}
"""Artemis' policies DROP and FAIL; without one Artemis continues without a limit, this broker holds."""

SLOW_POLICIES: Final = {"notify": "notify", "cancel": "cancel", "kill": "cancel"}
"""KILL is Artemis' term; it closes the consumer's connection, this broker cancels the consumer."""

LAG_POLICIES: Final = {"tell": "tell", "detach": "detach"}

WITHOUT_EFFECT: Final = frozenset(
    {"x-queue-mode", "x-queue-version", "x-queue-master-locator", "x-ha-policy", "x-dead-letter-strategy"}
)
"""RabbitMQ arguments about the storage of a queue, or for safe dead-lettering, which is the default here."""

FLOW_PREFIXES: Final = (
    "qpid.",
    "x-qpid",
    "capacity",
    "stop",
    "resume",
    "overflow",
    "hold",
    "flow",
    "default-flow",
    "maximumQueue",
    "queue.",
    "max-size",
    "address-full",
    "page-",
    "consumer-",
    "consumerW",
    "consumerM",
    "credit-",
    "producerW",
    "amqpC",
    "slow-consumer",
    "cursor-max",
    "dead-le",
    "disk-",
    "min-disk",
    "max-pr",
    "single-active",
    "queue-type",
    "message-t",
    "delivery-l",
    "expire",
)
"""Prefixes of settings and features, without x-: an unknown argument with one is refused as a misspelling."""
