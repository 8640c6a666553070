"""Names of other brokers that are no settings here: refused with advice, or without effect."""

from __future__ import annotations

from typing import Final

from penstock.errors import PreconditionFailed

# fmt: off
FOREIGN: Final[dict[str, str]] = {
    "dead-letter-address": "dead-letter-exchange and dead-letter-routing-key name the target of dead letters",
    "expiry-address": "dead-letter-exchange names the target of expired messages too",
    "max-delivery-attempts": "delivery-limit is the number of redeliveries, one less than that of the attempts",
    "max-size-bytes-reject-threshold": "a publish beyond the capacity is held, and refused after hold-deadline",
    "slow-consumer-threshold-measurement-unit": "slow-consumer-rate is in messages a second",
    "send-to-dla-on-no-route": "the argument alternate-exchange of an exchange takes what has no route",
    "redistribution-delay": "messages do not move between brokers",
    "default-exclusive-queue": "declare the queue with x-single-active-consumer",
    "auto-create-addresses": "an exchange is declared by a client or by definitions",
    "auto-delete-addresses": "declare the exchange with auto-delete",
    "auto-delete-queues": "declare the queue with auto-delete, or set expires",
    "auto-delete-queues-delay": "set expires",
    "producer-window-size": "set credit-window-bytes, the window of links that publish",
    "consumer-window-size": "set consumer-window-bytes",
    "producer-max-rate": "set rate-messages in scope producer",
    **dict.fromkeys(("expiry-delay", "min-expiry-delay", "max-expiry-delay", "no-expiry"),
                    "message-ttl bounds the time of every message in a queue, and its own expiration is kept if it"
                    " is shorter"),
    **dict.fromkeys(("redelivery-delay", "redelivery-delay-multiplier", "redelivery-collision-avoidance-factor",
                     "max-redelivery-delay"),
                    "let delivery-limit dead-letter the message to a queue with message-ttl and a"
                    " dead-letter-exchange"),
    **dict.fromkeys(("page-size-bytes", "page-max-cache-size"),
                    "a page has 512 KiB or half of the capacity, and the size cannot be set"),
    **dict.fromkeys(("max-read-page-bytes", "max-read-page-messages", "prefetch-page-bytes",
                     "prefetch-page-messages"),
                    "at most 4 MiB of pages are read ahead of the consumers"),
    **dict.fromkeys(("default-last-value-queue", "default-last-value-key", "default-non-destructive"),
                    "queues here keep all values"),
    **dict.fromkeys(("default-ring-size", "ring-size"),
                    "capacity-messages with overflow=drop-head is a ring"),
    **dict.fromkeys(("default-max-consumers", "default-purge-on-no-consumers"),
                    "declare the queues with the arguments that they need"),
    **dict.fromkeys(("default-queue-routing-type", "default-address-routing-type"),
                    "the type of the exchange decides: a queue each is ANYCAST, a fanout or topic exchange is"
                    " MULTICAST"),
    **dict.fromkeys(("config-delete-queues", "config-delete-addresses"),
                    "definitions delete nothing"),
    **dict.fromkeys(("min-large-message-size", "minLargeMessageSize", "amqpMinLargeMessageSize"),
                    "the start-up setting min-large-message says from which size messages come in pieces"),
    **dict.fromkeys(("amqpLowCredits", "amqpMinCredits"),
                    "credit is granted again as room allows; credit-window-messages is the most of it"),
    **dict.fromkeys(("confirmation-window-size", "confirmationWindowSize"),
                    "links of AMQP 1.0 resume by their unsettled deliveries"),
}
# fmt: on
"""Names of Artemis' address settings, acceptors and connectors, each with what there is instead.

They are from address-settings.adoc and configuration-index.adoc. Other unknown names are refused without advice.
"""
WITHOUT_EFFECT: Final = frozenset(
    {"x-queue-mode", "x-queue-version", "x-queue-master-locator", "x-ha-policy", "x-dead-letter-strategy"}
)
"""RabbitMQ arguments about the storage of a queue, or for safe dead-lettering, which is the default here."""
KEYS_WITHOUT_EFFECT: Final = frozenset(
    (
        *("max-priority", "single-active-consumer", "ha-mode", "ha-params", "ha-sync-mode", "ha-sync-batch-size"),
        *("ha-promote-on-shutdown", "ha-promote-on-failure", "queue-mode", "queue-version", "queue-master-locator"),
        *("queue-leader-locator", "initial-cluster-size", "target-group-size", "max-in-memory-length"),
        *("max-in-memory-bytes", "dead-letter-strategy", "federation-upstream", "federation-upstream-set"),
        *("federation-upstream-pattern", "max-age", "stream-max-segment-size-bytes", "stream-filter-size-bytes"),
        *("shards-per-node", "routing-key", "message-deduplication"),
    )
)
"""Keys of policies about the storage of a queue, streams, federation and sharding: stored, exported again and told."""
NOT_FOR_CLASSIC: Final = frozenset(
    {"max-age", "stream-max-segment-size-bytes", "initial-cluster-size", "delivery-limit", "dead-letter-strategy"}
)
NOT_FOR_QUORUM: Final = frozenset(
    (
        *("max-priority", "queue-mode", "single-active-consumer", "ha-mode", "ha-params", "ha-sync-mode"),
        *("ha-promote-on-shutdown", "ha-promote-on-failure", "queue-master-locator", "max-age"),
        *("stream-max-segment-size-bytes", "initial-cluster-size"),
    )
)
"""Keys with which a policy does not apply to queues of a type (`unsupported_policies` of RabbitMQ 3.10's types)."""


def check_foreign(subject: str, name: str) -> None:
    """Raise PreconditionFailed (406) for a name of the table, with or without `x-` in front."""
    advice = FOREIGN.get(name) or FOREIGN.get(name.removeprefix("x-"))
    if advice is not None:
        raise PreconditionFailed(f"{subject}: there is no setting {name}, which is one of Artemis; {advice}")
