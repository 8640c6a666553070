"""Keys of RabbitMQ's policies: those for exchanges, those without effect here, and those of operator policies."""

from __future__ import annotations

from typing import Final

ALTERNATE: Final = "alternate-exchange"
"""The one key of an exchange: where unroutable messages go."""

KEYS_WITHOUT_EFFECT: Final = frozenset(
    {
        "max-priority",
        "single-active-consumer",
        "ha-mode",
        "ha-params",
        "ha-sync-mode",
        "ha-sync-batch-size",
        "ha-promote-on-shutdown",
        "ha-promote-on-failure",
        "queue-mode",
        "queue-version",
        "queue-master-locator",
        "queue-leader-locator",
        "initial-cluster-size",
        "target-group-size",
        "max-in-memory-length",
        "max-in-memory-bytes",
        "dead-letter-strategy",
        "federation-upstream",
        "federation-upstream-set",
        "federation-upstream-pattern",
        "max-age",
        "stream-max-segment-size-bytes",
        "stream-filter-size-bytes",
        "shards-per-node",
        "routing-key",
        "message-deduplication",
    }
)
"""Keys about the storage of a queue, streams, federation and sharding. They are stored, exported again and told."""

NOT_FOR_CLASSIC: Final = frozenset(
    {"max-age", "stream-max-segment-size-bytes", "initial-cluster-size", "delivery-limit", "dead-letter-strategy"}
)
NOT_FOR_QUORUM: Final = frozenset(
    {
        "max-priority",
        "queue-mode",
        "single-active-consumer",
        "ha-mode",
        "ha-params",
        "ha-sync-mode",
        "ha-promote-on-shutdown",
        "ha-promote-on-failure",
        "queue-master-locator",
        "max-age",
        "stream-max-segment-size-bytes",
        "initial-cluster-size",
    }
)
"""Keys with which a policy does not apply to queues of a type (`unsupported_policies` of RabbitMQ 3.10's types)."""

SMALLEST: Final = frozenset(
    {
        "max-length",
        "max-length-bytes",
        "message-ttl",
        "expires",
        "delivery-limit",
        "consumer-timeout",
        "capacity-messages",
        "capacity-bytes",
    }
)
"""Limits of which the smallest applies, of an argument, a policy and an operator policy (rabbit_policies.erl)."""


APPLY_TO: Final = ("queues", "classic_queues", "quorum_queues", "streams", "exchanges", "all")

OVERFLOW: Final = "overflow"
OVERFLOWS: Final = ("drop-head", "reject-publish", "reject-publish-dlx")
"""Values of `overflow`, and of the argument x-overflow, that RabbitMQ knows."""
LIMITS_OF_RABBITMQ: Final = SMALLEST - {"capacity-messages", "capacity-bytes"}
"""Limits that RabbitMQ knows; there they are whole numbers."""
OF_OPERATORS: Final = (*sorted(SMALLEST), OVERFLOW)
"""Settings that an operator policy may have, besides those without effect."""
DEAD_LETTERS: Final = ("dead-letter-exchange", "dead-letter-routing-key")
"""Its other keys that are settings here."""
