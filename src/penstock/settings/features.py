"""Fixed features of a queue from its declaration: queue type, priorities, single active consumer.

Names and rules are RabbitMQ's. Unlike settings they cannot be changed later, nor set for a pattern of names.
"""

from __future__ import annotations

from typing import Final

from penstock.errors import NotImplementedHere, PreconditionFailed
from penstock.settings.value import shown

PRIORITY_MAX: Final = 255
"""Highest priority of a message: an octet (AMQP 0-9-1 section 1.8.1)."""
CONSUMER_PRIORITY_MAX: Final = (1 << 31) - 1
"""Largest distance of a consumer's priority from 0."""
FEATURES: Final = frozenset({"x-max-priority", "x-single-active-consumer", "x-queue-type"})
"""The arguments that this module reads."""
NOT_FOR_QUORUM: Final = ("x-max-priority", "x-queue-mode", "x-queue-master-locator")
"""Arguments that RabbitMQ refuses for a quorum queue."""
QUORUM_DELIVERY_LIMIT: Final = 20
"""RabbitMQ 4's x-delivery-limit of a quorum queue that sets none."""


class Features:
    """The fixed features of one queue."""

    __slots__ = ("max_priority", "single_active", "quorum")

    def __init__(self, max_priority: int = 0, single_active: bool = False, quorum: bool = False) -> None:
        self.max_priority = max_priority
        """The highest priority that it distinguishes; 0 for no priorities."""
        self.single_active = single_active
        """True if only one of its consumers gets messages at a time."""
        self.quorum = quorum
        """True if it was declared as a quorum queue: durable, and with a delivery limit."""


PLAIN: Final = Features()
"""The features of most queues: none."""


def read_features(queue: str, arguments: dict[str, object]) -> Features:
    """Read the features from the arguments of a queue.declare.

    Raises PreconditionFailed (406) for an invalid value, NotImplementedHere (540) for a stream.
    """
    subject = f"queue '{queue}'"
    if FEATURES.isdisjoint(arguments):
        return PLAIN
    features = Features(
        _priority(subject, arguments.get("x-max-priority")),
        _flag(subject, "x-single-active-consumer", arguments.get("x-single-active-consumer")),
        _is_quorum(subject, arguments.get("x-queue-type")),
    )
    if features.quorum:
        for name in NOT_FOR_QUORUM:
            if name in arguments:
                raise PreconditionFailed(f"{subject}: invalid arg '{name}' for a queue of type quorum")
    return features


def check_flags(queue: str, features: Features, durable: bool, auto_delete: bool, exclusive: bool) -> None:
    """Refuse flags that a quorum queue cannot have. Raises PreconditionFailed (406) as RabbitMQ does."""
    for wrong, what in ((not durable, "non-durable"), (auto_delete, "auto-delete"), (exclusive, "exclusive")):
        if features.quorum and wrong:
            raise PreconditionFailed(f"queue '{queue}': invalid property '{what}' for a queue of type quorum")


def read_priority(tag: str, arguments: dict[str, object]) -> int:
    """Return the priority of a consumer (x-priority), 0 by default. Raises PreconditionFailed (406)."""
    value = arguments.get("x-priority", 0)
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > CONSUMER_PRIORITY_MAX:
        raise PreconditionFailed(f"consumer '{tag}': x-priority={shown(value, True)} is not a whole number of 32 bits")
    return value


def _priority(subject: str, value: object) -> int:
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool):
        raise PreconditionFailed(f"{subject}: x-max-priority={shown(value, True)} is not a whole number")
    if value < 0 or value > PRIORITY_MAX:
        raise PreconditionFailed(f"{subject}: x-max-priority={shown(value)} is not between 0 and {PRIORITY_MAX}")
    return value


def _flag(subject: str, name: str, value: object) -> bool:
    if value is None:
        return False
    if not isinstance(value, bool):
        raise PreconditionFailed(f"{subject}: {name}={shown(value, True)} is neither true nor false")
    return value


def _is_quorum(subject: str, value: object) -> bool:
    if value is None or value in ("classic", "default"):
        return False
    if value == "quorum":
        return True
    if value == "stream":
        raise NotImplementedHere(
            f"{subject}: x-queue-type=stream is not supported; a cursor reads a queue again and again (docs/spark.md)"
        )
    raise PreconditionFailed(f"{subject}: x-queue-type={shown(value)} is not known; known are classic and quorum")
