"""Names of Artemis that are no settings here, each with what there is instead.

They are those of its address settings, acceptors and connectors (address-settings.adoc, configuration-index.adoc) that
somebody may bring along. Other unknown names are refused without advice, or have no effect.
"""

from __future__ import annotations

from typing import Final

from penstock.errors import PreconditionFailed

_DELAY: Final = "let delivery-limit dead-letter the message to a queue with message-ttl and a dead-letter-exchange"
_EXPIRY: Final = (
    "message-ttl bounds the time of every message in a queue, and its own expiration is kept if it is shorter"
)
_PAGE: Final = "a page has 512 KiB or half of the capacity, and the size cannot be set"
_READ: Final = "at most 4 MiB of pages are read ahead of the consumers"
_QUEUE: Final = "declare the queues with the arguments that they need"
_LARGE: Final = "the start-up setting min-large-message says from which size messages come in pieces"
_LINK_CREDIT: Final = "credit is granted again as room allows; credit-window-messages is the most of it"
_ROUTING: Final = "the type of the exchange decides: a queue each is ANYCAST, a fanout or topic exchange is MULTICAST"
_LAST_VALUE: Final = "queues here keep all values"
_ONE_BROKER: Final = "messages do not move between brokers"

FOREIGN: Final[dict[str, str]] = {
    "dead-letter-address": "dead-letter-exchange and dead-letter-routing-key name the target of dead letters",
    "expiry-address": "dead-letter-exchange names the target of expired messages too",
    "expiry-delay": _EXPIRY,
    "min-expiry-delay": _EXPIRY,
    "max-expiry-delay": _EXPIRY,
    "no-expiry": _EXPIRY,
    "max-delivery-attempts": "delivery-limit is the number of redeliveries, one less than that of the attempts",
    "redelivery-delay": _DELAY,
    "redelivery-delay-multiplier": _DELAY,
    "redelivery-collision-avoidance-factor": _DELAY,
    "max-redelivery-delay": _DELAY,
    "max-size-bytes-reject-threshold": "a publish beyond the capacity is held, and refused after hold-deadline",
    "page-size-bytes": _PAGE,
    "page-max-cache-size": _PAGE,
    "max-read-page-bytes": _READ,
    "max-read-page-messages": _READ,
    "prefetch-page-bytes": _READ,
    "prefetch-page-messages": _READ,
    "slow-consumer-threshold-measurement-unit": "slow-consumer-rate is in messages a second",
    "send-to-dla-on-no-route": "the argument alternate-exchange of an exchange takes what has no route",
    "redistribution-delay": _ONE_BROKER,
    "default-last-value-queue": _LAST_VALUE,
    "default-last-value-key": _LAST_VALUE,
    "default-non-destructive": _LAST_VALUE,
    "default-ring-size": "capacity-messages with overflow=drop-head is a ring",
    "ring-size": "capacity-messages with overflow=drop-head is a ring",
    "default-exclusive-queue": "declare the queue with x-single-active-consumer",
    "default-max-consumers": _QUEUE,
    "default-purge-on-no-consumers": _QUEUE,
    "default-queue-routing-type": _ROUTING,
    "default-address-routing-type": _ROUTING,
    "auto-create-addresses": "an exchange is declared by a client or by definitions",
    "auto-delete-addresses": "declare the exchange with auto-delete",
    "auto-delete-queues": "declare the queue with auto-delete, or set expires",
    "auto-delete-queues-delay": "set expires",
    "config-delete-queues": "definitions delete nothing",
    "config-delete-addresses": "definitions delete nothing",
    "min-large-message-size": _LARGE,
    "minLargeMessageSize": _LARGE,
    "amqpMinLargeMessageSize": _LARGE,
    "amqpLowCredits": _LINK_CREDIT,
    "amqpMinCredits": _LINK_CREDIT,
    "producer-window-size": "set credit-window-bytes, the window of links that publish",
    "consumer-window-size": "set consumer-window-bytes",
    "producer-max-rate": "set rate-messages in scope producer",
    "confirmation-window-size": "links of AMQP 1.0 resume by their unsettled deliveries",
    "confirmationWindowSize": "links of AMQP 1.0 resume by their unsettled deliveries",
}


def check_foreign(subject: str, name: str) -> None:
    """Raise PreconditionFailed (406) for a name of the table, with or without `x-` in front."""
    advice = FOREIGN.get(name) or FOREIGN.get(name.removeprefix("x-"))
    if advice is not None:
        raise PreconditionFailed(f"{subject}: there is no setting {name}, which is one of Artemis; {advice}")
