"""Types of queues, a row each: flags, arguments, delivery limit, ready queue, consumers and policies.

Modules that depend on the type of a queue read the row. A new type is a row in `TYPES`, and a function for `ready` if
the type orders its messages in another way. Declarations on all planes, definitions, policies, lists and the recovery
then support the type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from mypy_extensions import i64

from penstock.core.queue.ready_queue import Priorities, ReadyQueue
from penstock.errors import PreconditionFailed
from penstock.flow.level import UNLIMITED
from penstock.settings.kind import FLAG, Choices
from penstock.settings.read import FEATURES, MAX_PRIORITY, optional_argument
from penstock.settings.table import ALIASES, FOR_STREAMS, OF_STREAMS, OURS

QUEUE_TYPE: Final = "x-queue-type"
"""Argument of a declaration."""
DEFAULT_QUEUE_TYPE: Final = "default_queue_type"
"""Attribute of a virtual host: the type of queues that are declared without an argument."""
NON_DURABLE: Final = "non-durable"
AUTO_DELETE: Final = "auto-delete"
EXCLUSIVE: Final = "exclusive"
"""Flags of declarations, in RabbitMQ's words."""
NOT_OF_STREAMS: Final = frozenset(OURS) - FOR_STREAMS
"""Settings that a stream cannot have."""
_OF_STREAMS: Final = (*OF_STREAMS, "initial-cluster-size")


def lines(max_priority: int) -> ReadyQueue:
    """Return a ready queue with one line, or one for each priority up to `max_priority`."""
    return Priorities(max_priority) if max_priority else ReadyQueue()


class QueueType:
    """One type of queues."""

    def __init__(
        self,
        name: str,
        apply_to: str,
        aliases: tuple[str, ...] = (),
        refused_flags: tuple[str, ...] = (),
        refused_arguments: tuple[str, ...] = (),
        excluding_keys: frozenset[str] = frozenset(),
        delivery_limit: int = UNLIMITED,
        counts_returns: bool = False,
        ready: Callable[[int], ReadyQueue] = lines,
        urgent_first: bool = False,
        active_yields: bool = False,
        retains: bool = False,
    ) -> None:
        self.name: Final = name
        """Value of x-queue-type, and the type in lists."""
        self.apply_to: Final = apply_to
        """Value of apply-to in policies for queues of this type alone."""
        self.aliases: Final = aliases
        """Further values of x-queue-type."""
        self.refused_flags: Final = refused_flags
        self.refused_arguments: Final = refused_arguments
        self.excluding_keys: Final = excluding_keys
        """Keys with which a policy does not apply to queues of this type (`unsupported_policies` of RabbitMQ 3.10)."""
        self.delivery_limit: i64 = delivery_limit
        """Delivery limit of a queue that sets none."""
        self.counts_returns: Final = counts_returns
        """True if consumers get a delivery count even without a delivery limit."""
        self.ready: Final = ready
        """Function that makes the ready queue, for the highest priority that the queue distinguishes."""
        self.urgent_first: Final = urgent_first
        """True if messages of priority 5 or more have a class of their own (urgency.py)."""
        self.active_yields: Final = active_yields
        """True if the single active consumer yields to a consumer of a higher priority (rotation.py)."""
        self.retains: Final = retains
        """True if messages stay on the disk, and consumers get copies (stream_queue.py)."""

    def refused_flag(self, durable: bool, auto_delete: bool, exclusive: bool) -> str:
        """Return the first flag that a queue of this type cannot have; "" without such a flag."""
        for given, flag in ((not durable, NON_DURABLE), (auto_delete, AUTO_DELETE), (exclusive, EXCLUSIVE)):
            if given and flag in self.refused_flags:
                return flag
        return ""

    def refuses(self, argument: str) -> bool:
        """Return whether a declaration with this argument is refused; unknown arguments have no effect."""
        if argument in self.refused_arguments:
            return True
        if not self.retains or argument == QUEUE_TYPE:
            return False
        return argument in FEATURES or ALIASES.get(argument, argument) in NOT_OF_STREAMS


CLASSIC: Final = QueueType(
    "classic", "classic_queues", aliases=("default",), excluding_keys=frozenset((*_OF_STREAMS, "delivery-limit"))
)
QUORUM: Final = QueueType(
    "quorum",
    "quorum_queues",
    refused_flags=(NON_DURABLE, AUTO_DELETE, EXCLUSIVE),
    refused_arguments=("x-max-priority", "x-queue-mode", "x-queue-master-locator"),
    excluding_keys=frozenset(
        (
            *_OF_STREAMS,
            *("max-priority", "queue-mode", "single-active-consumer", "ha-mode", "ha-params", "ha-sync-mode"),
            *("ha-promote-on-shutdown", "ha-promote-on-failure", "queue-master-locator"),
        )
    ),
    delivery_limit=20,  # As in RabbitMQ 4.
    counts_returns=True,
    urgent_first=True,
    active_yields=True,
)
STREAM: Final = QueueType(
    "stream",
    "streams",
    refused_flags=(NON_DURABLE, AUTO_DELETE, EXCLUSIVE),
    excluding_keys=frozenset(
        (
            *NOT_OF_STREAMS,
            *("max-in-memory-length", "max-in-memory-bytes", "single-active-consumer", "max-priority", "queue-mode"),
            *("ha-mode", "ha-params", "ha-sync-mode", "ha-promote-on-shutdown", "ha-promote-on-failure"),
            "queue-master-locator",
        )
    ),
    retains=True,
)
TYPES: Final[dict[str, QueueType]] = {row.name: row for row in (CLASSIC, QUORUM, STREAM)}
"""Types by name. A queue of no other type is CLASSIC."""


class Features:
    """The fixed features of one queue."""

    __slots__ = ("max_priority", "single_active", "type")

    def __init__(self, max_priority: int = 0, single_active: bool = False, type: QueueType = CLASSIC) -> None:
        self.max_priority = max_priority
        """The highest priority that the queue distinguishes; 0 for no priorities."""
        self.single_active = single_active
        """True if only one of the queue's consumers gets messages at a time."""
        self.type = type


PLAIN: Final = Features()
"""The features of most queues: none."""


def find_type(value: object) -> QueueType | None:
    """Return the type with a value of x-queue-type; None if no type has it."""
    if not isinstance(value, str):
        return None
    row = TYPES.get(value)
    if row is not None:
        return row
    for each in TYPES.values():
        if value in each.aliases:
            return each
    return None


def read_type(subject: str, name: str, value: object) -> QueueType:
    """Return the type in an argument or attribute `name` of a subject.

    Raises PreconditionFailed (406) for an unknown type.
    """
    if value is None:
        return CLASSIC
    row = find_type(value)
    if row is not None:
        return row
    raise PreconditionFailed(f"{subject}: {Choices(tuple(TYPES), folded=False).fault(name, value)}")


def default_type(attributes: Mapping[str, object]) -> QueueType:
    """Return the default type in the attributes of a virtual host; CLASSIC without a type that exists here."""
    return find_type(attributes.get(DEFAULT_QUEUE_TYPE)) or CLASSIC


def with_default_type(
    arguments: dict[str, object], default: QueueType, durable: bool, auto_delete: bool, exclusive: bool
) -> dict[str, object]:
    """Return the arguments of a declaration with the default type of its virtual host, as RabbitMQ adds it.

    Arguments that name a type are returned unchanged, and so are arguments if a queue of the default type cannot have
    the flags: such a queue is CLASSIC.
    """
    if default is CLASSIC or arguments.get(QUEUE_TYPE) is not None:
        return arguments
    if default.refused_flag(durable, auto_delete, exclusive):
        return arguments
    return {**arguments, QUEUE_TYPE: default.name}


def read_features(queue: str, arguments: dict[str, object]) -> Features:
    """Read the features from the arguments of a queue.declare.

    Raises PreconditionFailed (406) for an invalid value.
    """
    subject = f"queue '{queue}'"
    if FEATURES.isdisjoint(arguments):
        return PLAIN
    features = Features(
        optional_argument(subject, "x-max-priority", MAX_PRIORITY, arguments, 0),
        optional_argument(subject, "x-single-active-consumer", FLAG, arguments, False),
        read_type(subject, QUEUE_TYPE, arguments.get(QUEUE_TYPE)),
    )
    for name in arguments:
        if features.type.refuses(name):
            raise PreconditionFailed(f"{subject}: invalid arg '{name}' for a queue of type {features.type.name}")
    return features


def check_flags(queue: str, features: Features, durable: bool, auto_delete: bool, exclusive: bool) -> None:
    """Refuse flags that a queue of this type cannot have. Raises PreconditionFailed (406) as RabbitMQ does."""
    flag = features.type.refused_flag(durable, auto_delete, exclusive)
    if flag:
        raise PreconditionFailed(f"queue '{queue}': invalid property '{flag}' for a queue of type {features.type.name}")
