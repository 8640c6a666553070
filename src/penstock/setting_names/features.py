"""What a queue is, as its declaration says once and for all: its type, its priorities, who consumes from it.

Names and rules are RabbitMQ's. Unlike settings these cannot be changed, nor said for a pattern of names.
"""

from __future__ import annotations

from typing import Final

from penstock.errors import NotImplementedHere, PreconditionFailed
from penstock.setting_names.setting_value import shown

PRIORITY_MAX: Final = 255
"""The highest that a message may have: an octet (AMQP 0-9-1 section 1.8.1)."""
CONSUMER_PRIORITY_MAX: Final = (1 << 31) - 1
"""How far from 0 a consumer's priority may be."""
FEATURES: Final = frozenset({"x-max-priority", "x-single-active-consumer", "x-queue-type"})
"""The arguments that are read here."""
NOT_FOR_QUORUM: Final = ("x-max-priority", "x-queue-mode", "x-queue-master-locator")
"""Arguments that RabbitMQ refuses for a quorum queue."""
QUORUM_DELIVERY_LIMIT: Final = 20
"""RabbitMQ 4's x-delivery-limit of a quorum queue that says none."""


class Features:
    """What the declaration of one queue says it is."""

    __slots__ = ("max_priority", "single_active", "quorum")

    def __init__(self, max_priority: int = 0, single_active: bool = False, quorum: bool = False) -> None:
        self.max_priority = max_priority
        """The highest priority that it tells apart; 0 is none at all."""
        self.single_active = single_active
        """Whether only one of its consumers gets messages at a time."""
        self.quorum = quorum
        """Whether it was asked for as a quorum queue: durable, and with a delivery limit."""


PLAIN: Final = Features()
"""What most queues are."""


def read_features(queue: str, arguments: dict[str, object]) -> Features:
    """Return what the arguments of a queue.declare say that it is.

    Raises PreconditionFailed (406) for what cannot be meant, NotImplementedHere (540) for a stream.
    """
    thing = f"queue '{queue}'"
    if FEATURES.isdisjoint(arguments):
        return PLAIN
    features = Features(
        _priority(thing, arguments.get("x-max-priority")),
        _flag(thing, "x-single-active-consumer", arguments.get("x-single-active-consumer")),
        _is_quorum(thing, arguments.get("x-queue-type")),
    )
    if features.quorum:
        for name in NOT_FOR_QUORUM:
            if name in arguments:
                raise PreconditionFailed(f"{thing}: invalid arg '{name}' for a queue of type quorum")
    return features


def check_flags(queue: str, features: Features, durable: bool, auto_delete: bool, exclusive: bool) -> None:
    """Refuse what a quorum queue cannot be. Raises PreconditionFailed (406) as RabbitMQ does."""
    for wrong, what in ((not durable, "non-durable"), (auto_delete, "auto-delete"), (exclusive, "exclusive")):
        if features.quorum and wrong:
            raise PreconditionFailed(f"queue '{queue}': invalid property '{what}' for a queue of type quorum")


def read_priority(tag: str, arguments: dict[str, object]) -> int:
    """Return the priority of a consumer (x-priority), 0 if it says none. Raises PreconditionFailed (406)."""
    value = arguments.get("x-priority", 0)
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > CONSUMER_PRIORITY_MAX:
        raise PreconditionFailed(f"consumer '{tag}': x-priority={shown(value, True)} is not a whole number of 32 bits")
    return value


def _priority(thing: str, value: object) -> int:
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool):
        raise PreconditionFailed(f"{thing}: x-max-priority={shown(value, True)} is not a whole number")
    if value < 0 or value > PRIORITY_MAX:
        raise PreconditionFailed(f"{thing}: x-max-priority={shown(value)} is not between 0 and {PRIORITY_MAX}")
    return value


def _flag(thing: str, name: str, value: object) -> bool:
    if value is None:
        return False
    if not isinstance(value, bool):
        raise PreconditionFailed(f"{thing}: {name}={shown(value, True)} is neither true nor false")
    return value


def _is_quorum(thing: str, value: object) -> bool:
    if value is None or value in ("classic", "default"):
        return False
    if value == "quorum":
        return True
    if value == "stream":
        raise NotImplementedHere(
            f"{thing}: x-queue-type=stream is not supported; a cursor reads a queue again and again (docs/spark.md)"
        )
    raise PreconditionFailed(f"{thing}: x-queue-type={shown(value)} is not known; known are classic and quorum")
