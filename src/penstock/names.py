"""The vocabulary: every name that other brokers use for our settings, accepted here and nowhere else.

`read_arguments` takes the arguments of a queue.declare as a client sent them and gives them back under our words, with
borders translated: Qpid C++ resumes strictly below its threshold, so its `qpid.flow_resume_count = 500` is our 499.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Final

from penstock.errors import NotImplementedHere, PreconditionFailed

OURS: Final = (
    "capacity-messages",
    "capacity-bytes",
    "stop-messages",
    "stop-bytes",
    "resume-messages",
    "resume-bytes",
    "stop-percent",
    "resume-percent",
    "overflow",
    "hold-deadline",
)

ALIASES: Final[dict[str, str]] = {
    # Qpid C++ (QueueSettings.cpp, QueueFlowLimit.cpp)
    "qpid.max_count": "capacity-messages",
    "qpid.max_size": "capacity-bytes",
    "qpid.flow_stop_count": "stop-messages",
    "qpid.flow_stop_size": "stop-bytes",
    "qpid.flow_resume_count": "resume-messages",
    "qpid.flow_resume_size": "resume-bytes",
    "qpid.policy_type": "overflow",
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
    # RabbitMQ
    "x-max-length": "capacity-messages",
    "x-max-length-bytes": "capacity-bytes",
    "x-overflow": "overflow",
    "x-message-ttl": "message-ttl",
    "x-expires": "expires",
} | {"x-" + word: word for word in OURS}

OVERFLOW_ALIASES: Final = {
    "producer_flow_control": "block",
    "drop-head": "drop-head",
    "ring": "drop-head",
    "ring-strict": "ring-strict",
    "ring_strict": "ring-strict",
    "drop-new": "drop-new",
    "self-destruct": "self-destruct",
    "self_destruct": "self-destruct",
    "reject-publish": "reject",
    "block": "block",
    "reject": "reject",
}

NOT_YET: Final = frozenset(
    {
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-dead-letter-strategy",
        "x-max-priority",
        "x-single-active-consumer",
        "x-delivery-limit",
        "alternate-exchange",
    }
)
"""Arguments whose silent neglect would lose or reorder messages: refused until they are built."""

WITHOUT_EFFECT: Final = frozenset({"x-queue-mode", "x-queue-version", "x-queue-master-locator", "x-ha-policy"})
"""RabbitMQ arguments that only choose how it stores a queue; accepted, and nothing depends on them."""

FLOW_PREFIXES: Final = (
    "qpid.",
    "x-qpid",
    "capacity",
    "stop",
    "resume",
    "overflow",
    "hold",
    "flow",
    "maximumQueue",
    "queue.",
)
"""An unknown argument that begins so was meant for flow control: a misspelling must not go unnoticed."""


@dataclass(frozen=True)
class Word:
    """One argument under our word."""

    alias: str
    """The name that was used."""
    given: object
    """The value as it was given, for messages to people."""
    number: int = 0
    text: str = ""


def read_arguments(queue: str, arguments: dict[str, object]) -> dict[str, Word]:
    """Return the arguments that mean something to us under our words.

    Raises PreconditionFailed (406) for a value that cannot be meant, a contradiction between two names of one setting
    or a misspelt flow-control argument, and NotImplementedHere (540) for what must not be ignored; nothing is created.
    """
    words: dict[str, Word] = {}
    for name, value in arguments.items():
        ours = name if name in OURS else ALIASES.get(name)
        if ours is None:
            _check_unknown(queue, name, value)
            continue
        word = _read(queue, name, ours, value)
        earlier = words.get(ours)
        if earlier is not None and (earlier.number, earlier.text) != (word.number, word.text):
            raise PreconditionFailed(
                f"queue '{queue}': {name}={value} contradicts {earlier.alias}={earlier.given}; both set {ours}"
            )
        words[ours] = word
    return words


def check_exchange_arguments(exchange: str, arguments: dict[str, object]) -> None:
    """Look at the arguments of an exchange. Raises NotImplementedHere (540) for what must not be ignored."""
    for name in arguments:
        if name in NOT_YET:
            raise NotImplementedHere(f"exchange '{exchange}': {name} is not supported by this version of Penstock")


def _check_unknown(queue: str, name: str, value: object) -> None:
    if name in NOT_YET:
        raise NotImplementedHere(f"queue '{queue}': {name} is not supported by this version of Penstock")
    if name == "x-queue-type" and value not in ("classic", "default"):
        raise NotImplementedHere(f"queue '{queue}': x-queue-type={value} is not supported; use classic")
    if name in WITHOUT_EFFECT or name == "x-queue-type":
        return
    if name.removeprefix("x-").startswith(FLOW_PREFIXES) or name.startswith((*FLOW_PREFIXES, "x-max")):
        near = difflib.get_close_matches(name, [*OURS, *ALIASES], n=1)
        hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(OURS)}"
        raise PreconditionFailed(f"queue '{queue}': unknown argument {name}={value}{hint}")


def _read(queue: str, name: str, ours: str, value: object) -> Word:
    if ours == "overflow":
        return _read_overflow(queue, name, value)
    number = _number(value)
    if number is None:
        raise PreconditionFailed(f"queue '{queue}': {name}={value!r} is not a whole number")
    if number < 0:
        raise PreconditionFailed(f"queue '{queue}': {name}={number} is negative; the least is 0")
    if number >= 1 << 62:
        raise PreconditionFailed(f"queue '{queue}': {name}={number} is too large; the most is 2**62 - 1")
    if ours.endswith("-percent") and number > 100:
        raise PreconditionFailed(f"queue '{queue}': {name}={number} is not a percentage between 0 and 100")
    if ours == "expires" and number == 0:
        raise PreconditionFailed(f"queue '{queue}': {name}=0 would delete the queue at once; the least is 1 (ms)")
    if name.startswith("qpid.flow_resume"):
        number = max(number - 1, 0)
    return Word(name, value, number=number)


def _read_overflow(queue: str, name: str, value: object) -> Word:
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    policy = OVERFLOW_ALIASES.get(text.lower())
    if policy is None:
        known = sorted(set(OVERFLOW_ALIASES))
        near = difflib.get_close_matches(text.lower(), known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
        raise PreconditionFailed(f"queue '{queue}': {name}={text} is not an overflow policy; {hint}")
    return Word(name, text, text=policy)


def _number(value: object) -> int | None:
    """Return a whole number, also from its decimal text ("5"), as Qpid C++ takes it; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return None
    return None
