"""Whether a declaration asks for the queue that is there already: RabbitMQ's rules and words."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Final

from penstock.errors import PreconditionFailed
from penstock.names import ALIASES, OURS

if TYPE_CHECKING:
    from penstock.core.queue import Queue

QUEUE_TYPE: Final = "x-queue-type"
CLASSIC: Final = "classic"
"""What a queue is whose declaration names no type."""

RABBITMQS: Final = frozenset(
    {
        "x-dead-letter-strategy",
        "x-delivery-limit",
        "x-max-priority",
        "x-queue-mode",
        "x-queue-version",
        "x-single-active-consumer",
    }
)
"""Arguments of RabbitMQ's that it compares and that are no settings of ours; others than known ones it does not."""
SIGNED_INT_MAX: Final = 2**31 - 1


def check_same(queue: Queue, arguments: dict[str, object], durable: bool, auto_delete: bool) -> None:
    """Raises PreconditionFailed (406) naming the first difference, with both values."""
    for what, is_now, wanted in (("durable", queue.durable, durable), ("auto_delete", queue.auto_delete, auto_delete)):
        if is_now != wanted:
            raise _differs(queue, what, f"received '{_text(wanted)}' but current is '{_text(is_now)}'")
    kind, kind_now = arguments.get(QUEUE_TYPE, CLASSIC), queue.arguments.get(QUEUE_TYPE, CLASSIC)
    if kind != kind_now:
        raise _differs(queue, QUEUE_TYPE, f"received '{_text(kind)}' but current is '{_text(kind_now)}'")
    for name in sorted({**arguments, **queue.arguments}):
        if name in RABBITMQS or name in OURS or name in ALIASES:
            _check_argument(queue, name, arguments.get(name), queue.arguments.get(name))


def _check_argument(queue: Queue, name: str, wanted: object, is_now: object) -> None:
    if wanted == is_now and _class(wanted) == _class(is_now):
        return
    if wanted is None:
        raise _differs(queue, name, f"received none but current is {_typed(is_now)}")
    if is_now is None:
        raise _differs(queue, name, f"received {_typed(wanted)} but current is none")
    raise _differs(queue, name, f"received '{_text(wanted)}' but current is '{_text(is_now)}'")


def _differs(queue: Queue, name: str, how: str) -> PreconditionFailed:
    return PreconditionFailed(f"inequivalent arg '{name}' for queue '{queue.name}' in vhost '{queue.vhost}': {how}")


def _class(value: object) -> str:
    """Return the type by which values are compared: all integers are one, as in RabbitMQ."""
    return "integer" if isinstance(value, int) and not isinstance(value, bool) else _type(value)


def _type(value: object) -> str:
    """Return RabbitMQ's word for the narrowest type of a field table that most clients write a value with."""
    if value is None:
        return "void"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "signedint" if -SIGNED_INT_MAX - 1 <= value <= SIGNED_INT_MAX else "long"
    if isinstance(value, float):
        return "double"
    if isinstance(value, str | bytes):
        return "longstr"
    if isinstance(value, Decimal):
        return "decimal"
    if isinstance(value, dict):
        return "table"
    return "array" if isinstance(value, list) else "timestamp"


def _typed(value: object) -> str:
    return f"the value '{_text(value)}' of type '{_type(value)}'"


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
