"""Arguments of other brokers that have no effect here, each with its reason, which is reported on use.

Such arguments are accepted, because programs use them and ignoring them loses no message. Arguments whose omission
would lose messages, or use up attempts, are refused instead (settings/read.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from penstock.settings.table import OF_STREAMS as STREAMS_ALONE

_STORED: Final = "queues are stored in one way"
_ONE_NODE: Final = "a queue is on one node"
_IN_MEMORY: Final = "overflow=page keeps what is beyond a capacity on the disk"
_NO_STREAM: Final = "this queue is no stream; a queue of type stream is read again"
_AGE: Final = "this queue is no stream; message-ttl bounds the age of its messages"
_NO_FILTER: Final = "a consumer gets every message of a stream, and filters by itself"
_NO_SUPER_STREAM: Final = "only RabbitMQ's stream protocol uses it"
_HOPS: Final = "only an exchange of type x-federation-upstream reads it"
_NOT_COMPARED: Final = "messages are not compared"
_SHARED_GROUPS: Final = "a group moves when all its messages are settled, as Qpid's shared groups do"
_DEDUPLICATION: Final = ("x-message-deduplication", "x-cache-size", "x-cache-ttl", "x-deduplication-header")

DELAYED: Final = "x-delayed-message"
"""Type of exchanges that delay messages by their header `x-delay`, as RabbitMQ's plug-in names it."""
DELAYED_TYPE: Final = "x-delayed-type"
"""Argument of such an exchange: the type that finds its bindings."""
HASHING: Final = "x-consistent-hash"
"""Type of exchanges that hash a part of each message, as RabbitMQ's plug-in names it."""
OF_HASHING: Final = ("hash-header", "hash-property", "x-hash-on")
"""Arguments that name this part."""
FEDERATION: Final = "x-federation-upstream"
"""Type of the exchanges that federation declares at its upstreams, as RabbitMQ's plug-in names it."""
OF_FEDERATION: Final = ("x-max-hops", "x-downstream-name", "x-downstream-vhost")
READ_BY: Final[dict[str, tuple[str, ...]]] = {
    HASHING: OF_HASHING,
    DELAYED: (DELAYED_TYPE, *OF_HASHING),
    FEDERATION: OF_FEDERATION,
}
"""Arguments that only exchanges of some types read, by type; one that delays reads those of its other type too."""

# fmt: off
OF_QUEUES: Final[dict[str, str]] = {
    **dict.fromkeys(("x-queue-mode", "x-queue-version"), _STORED),
    **dict.fromkeys(("x-queue-master-locator", "x-queue-leader-locator", "x-ha-policy", "x-ha-policy-params",
                     "x-initial-cluster-size", "x-quorum-initial-group-size", "x-quorum-target-group-size",
                     "x-member-placement-tag"), _ONE_NODE),
    **dict.fromkeys(("x-max-in-memory-length", "x-max-in-memory-bytes"), _IN_MEMORY),
    **dict.fromkeys(_DEDUPLICATION, _NOT_COMPARED),
    **dict.fromkeys(("x-super-stream", "x-stream-partition-order"), _NO_SUPER_STREAM),
    "x-stream-filter-size-bytes": _NO_FILTER,
    "x-consumer-disconnected-timeout": "a consumer ends with its connection, and its deliveries return at once",
    **dict.fromkeys(("qpid.shared_msg_group", "messageGroupType"), _SHARED_GROUPS),
    "x-max-hops": _HOPS,
    "x-name-prefix": "the broker's own names begin with amq.gen",
}
"""Arguments of queues, each with the reason."""
OF_EXCHANGES: Final[dict[str, str]] = {
    **dict.fromkeys(_DEDUPLICATION, _NOT_COMPARED),
    "x-algorithm": "there is one consistent hash",
    **dict.fromkeys(OF_HASHING, "only an exchange of type x-consistent-hash reads it"),
    DELAYED_TYPE: "only an exchange of type x-delayed-message reads it",
    "x-recent-history-length": "an exchange stores no messages",
    "x-recent-history-no-store": "an exchange stores no messages",
    "x-persist-messages": "an exchange stores no messages",
    "x-persist-ms": "an exchange stores no messages",
    "x-super-stream": _NO_SUPER_STREAM,
    **dict.fromkeys(OF_FEDERATION, _HOPS),
}
"""Arguments of exchanges, each with the reason."""
OF_CONSUMERS: Final[dict[str, str]] = {
    "x-cancel-on-ha-failover": _ONE_NODE,
    "x-stream-offset": _NO_STREAM,
    **dict.fromkeys(("x-stream-filter", "x-stream-match-unfiltered", "x-filter-match-type"), _NO_FILTER),
    "x-stream-automatic-offset-tracking": "a consumer of a stream begins where its x-stream-offset says",
}
"""Arguments of consumers, each with the reason."""
OF_STREAMS: Final[dict[str, str]] = {
    name: _AGE if name.endswith("max-age") else _NO_STREAM
    for setting in STREAMS_ALONE for name in (setting, "x-" + setting)
}
"""Settings of streams, each with the reason why it has no effect for other queues."""
STREAM_PRIORITY: Final = "argument x-priority of a consumer has no effect: consumers of a stream do not compete"
# fmt: on
PAGED_PRIORITIES: Final = (
    "the priority of messages has no effect in a queue of type {} with overflow=page: messages are delivered in "
    "the order they came; without page, those of priority 5 or more come first"
)
DISPLACED: Final = (
    "dead-letter-strategy=at-least-once has no effect on messages that overflow=drop-head displaces, because their "
    "room is given away; block or reject keeps them"
)
SINGLE_ACTIVE: Final = (
    "x-priority has no effect on a {} queue with x-single-active-consumer: the first consumer is active until it "
    "is gone; in a queue of type quorum it yields to a higher priority"
)


def in_queue(arguments: Mapping[str, object]) -> list[str]:
    """Return a sentence for each argument of a queue that has no effect."""
    reasons = OF_QUEUES if arguments.get("x-queue-type") == "stream" else OF_QUEUES | OF_STREAMS
    return [_sentence(name, "queue", reasons[name]) for name in arguments if name in reasons]


def in_exchange(arguments: Iterable[str], kind: str = "") -> list[str]:
    """Return a sentence for each argument of an exchange of a type (empty for any) that has no effect."""
    return [
        _sentence(name, "exchange", OF_EXCHANGES[name], "an")
        for name in arguments
        if name in OF_EXCHANGES and name not in READ_BY.get(kind, ())
    ]


def in_consumer(arguments: Iterable[str], steady: str = "", stream: bool = False) -> list[str]:
    """Return a sentence for each argument of a consumer that has no effect.

    `steady`: type of the queue if it has a single active consumer that does not yield to a higher priority, else "".
    `stream`: the queue is a stream.
    """
    names = [name for name in arguments if name in OF_CONSUMERS and not (stream and name == "x-stream-offset")]
    found = [_sentence(name, "consumer", OF_CONSUMERS[name]) for name in names]
    if stream and "x-priority" in arguments:
        found.append(STREAM_PRIORITY)
    return [*found, SINGLE_ACTIVE.format(steady)] if steady and "x-priority" in arguments else found


def _sentence(name: str, of: str, reason: str, article: str = "a") -> str:
    return f"argument {name} of {article} {of} has no effect: {reason}"
