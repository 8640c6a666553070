"""Sequences of 0-9-1 methods, drawn at random: few names and small numbers, so that they have to do with each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from pamqp import base, commands

QUEUES = ("qa", "qb", "qc")
EXCHANGES = ("xa", "xb")
NAMES = (*QUEUES, *EXCHANGES)
"""Names that every sequence has for itself: a prefix is put in front."""
CHANNELS = ((0, 1), (0, 2), (1, 1))
"""Where a step may happen: connection and channel."""
KEYS = ("", "qa", "qb", "k.1", "k.2", "*.1", "#")

Q, X = st.sampled_from(QUEUES), st.sampled_from(EXCHANGES)
QUEUE_OR_LAST = st.sampled_from((*QUEUES, *QUEUES, ""))
SOURCE = st.sampled_from((*EXCHANGES, "amq.direct", "amq.topic", "amq.fanout", "amq.headers"))
TARGET = st.sampled_from(("", "", "", *EXCHANGES, *EXCHANGES, "amq.topic", "amq.fanout", "amq.headers", "missing"))
KEY = st.sampled_from(KEYS)
FLAG = st.booleans()
SELDOM = st.integers(0, 7).map(lambda number: number == 0)
RARELY = st.integers(0, 31).map(lambda number: number == 0)
TAG = st.sampled_from(("ta", "tb", ""))
ZERO, UNKNOWN = -1, -2


@dataclass(frozen=True)
class Step:
    """A method on a channel; names without their prefix."""

    where: tuple[int, int]
    method: str
    fields: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        words = ", ".join(f"{key}={value!r}" for key, value in self.fields.items())
        return f"Step({self.where}, {self.method!r}, dict({words}))"


def frame_of(step: Step, prefix: str, tag: int) -> base.Frame:
    """Return the method with its names in full; `tag` is the delivery tag that is meant, where one is."""
    group, _, name = step.method.partition(".")
    fields = {key: full(value, prefix) for key, value in step.fields.items() if key not in ("pick", "properties")}
    if "pick" in step.fields:
        fields["delivery_tag"] = tag
    made: base.Frame = getattr(getattr(commands, group), name)(**fields)
    return made


def full(value: Any, prefix: str) -> Any:
    """Return a name of the sequence with its prefix, also in lists and tables; anything else as it is."""
    if isinstance(value, list):
        return [full(each, prefix) for each in value]
    if isinstance(value, dict):
        return {key: full(each, prefix) for key, each in value.items()}
    return f"{prefix}{value}" if isinstance(value, str) and value in NAMES else value


def _some(*choices: tuple[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return a table with one or two of these entries, or none most of the time."""
    return st.one_of(st.just({}), st.just({}), st.lists(st.sampled_from(choices), min_size=1, max_size=2).map(dict))


QUEUE_ARGUMENTS = _some(
    ("x-message-ttl", 0), ("x-message-ttl", 3_600_000), ("x-message-ttl", -1), ("x-message-ttl", "abc"),
    ("x-expires", 3_600_000), ("x-expires", 0), ("x-max-length", 1), ("x-max-length", 2), ("x-max-length", -1),
    ("x-overflow", "drop-head"), ("x-overflow", "reject-publish"), ("x-overflow", "nonsense"),
    ("x-dead-letter-exchange", ""), ("x-dead-letter-exchange", "xa"), ("x-dead-letter-exchange", "missing"),
    ("x-dead-letter-routing-key", "k.1"), ("x-max-priority", 2), ("x-max-priority", 256),
    ("x-single-active-consumer", True), ("x-queue-mode", "lazy"), ("x-queue-type", "classic"), ("own", 1),
)  # fmt: skip
DECLARE_QUEUE = st.fixed_dictionaries(
    {"queue": QUEUE_OR_LAST, "passive": SELDOM, "durable": SELDOM, "exclusive": SELDOM, "auto_delete": SELDOM,
     "nowait": SELDOM, "arguments": QUEUE_ARGUMENTS}
)  # fmt: skip
PLAIN_QUEUE = st.fixed_dictionaries({"queue": Q})
BIND_QUEUE = st.fixed_dictionaries(
    {"queue": QUEUE_OR_LAST, "exchange": SOURCE, "routing_key": KEY,
     "arguments": _some(("h", 1), ("x-match", "any"), ("x-match", "all"))}
)  # fmt: skip
DECLARE_EXCHANGE = st.fixed_dictionaries(
    {"exchange": st.one_of(X, X, X, SOURCE),
     "exchange_type": st.sampled_from(("direct", "fanout", "topic", "headers", "direct", "fanout", "nonsense")),
     "passive": SELDOM, "durable": SELDOM, "auto_delete": SELDOM, "internal": SELDOM,
     "arguments": _some(("alternate-exchange", "xb"), ("alternate-exchange", "amq.fanout"), ("own", 1))}
)  # fmt: skip
# Not from a predeclared one to another: nobody would remove that in the end.
BIND_EXCHANGE = st.one_of(
    st.fixed_dictionaries({"destination": X, "source": SOURCE, "routing_key": KEY}),
    st.fixed_dictionaries({"destination": SOURCE, "source": X, "routing_key": KEY}),
)
PROPERTIES = st.fixed_dictionaries(
    {},
    optional={"headers": st.sampled_from(({"h": 1}, {"h": 2}, {"CC": ["qb"]}, {"BCC": ["qc"]}, {"CC": "qb"})),
              "priority": st.integers(0, 3), "delivery_mode": st.integers(1, 2),
              "expiration": st.sampled_from(("0", "3600000", "-1", "abc", "1.5")),
              "user_id": st.sampled_from(("guest", "other"))},
)  # fmt: skip
PUBLISH = st.fixed_dictionaries(
    {"exchange": TARGET, "routing_key": st.one_of(KEY, Q), "mandatory": FLAG, "immediate": RARELY,
     "properties": st.one_of(st.just({}), st.just({}), PROPERTIES)}
)  # fmt: skip
PICK = st.sampled_from((0, 0, 0, 1, 1, 2, 3, ZERO, UNKNOWN))
METHODS: list[tuple[int, str, st.SearchStrategy[dict[str, Any]]]] = [
    (7, "Queue.Declare", DECLARE_QUEUE),
    (3, "Queue.Declare", PLAIN_QUEUE),
    (1, "Queue.Delete", st.fixed_dictionaries({"queue": QUEUE_OR_LAST, "if_unused": SELDOM, "if_empty": SELDOM,
                                              "nowait": SELDOM})),
    (1, "Queue.Purge", st.fixed_dictionaries({"queue": QUEUE_OR_LAST})),
    (3, "Queue.Bind", BIND_QUEUE),
    (1, "Queue.Unbind", BIND_QUEUE),
    (4, "Exchange.Declare", DECLARE_EXCHANGE),
    (1, "Exchange.Delete", st.fixed_dictionaries({"exchange": st.one_of(X, SOURCE), "if_unused": FLAG})),
    (2, "Exchange.Bind", BIND_EXCHANGE),
    (1, "Exchange.Unbind", BIND_EXCHANGE),
    (10, "Basic.Publish", PUBLISH),
    (5, "Basic.Publish", st.fixed_dictionaries({"exchange": st.just(""), "routing_key": Q})),
    (4, "Basic.Get", st.fixed_dictionaries({"queue": QUEUE_OR_LAST, "no_ack": FLAG})),
    (4, "Basic.Consume", st.fixed_dictionaries(
        {"queue": QUEUE_OR_LAST, "consumer_tag": TAG, "no_ack": SELDOM, "exclusive": SELDOM, "nowait": SELDOM,
         "no_local": SELDOM, "arguments": _some(("x-priority", 1), ("x-priority", -1), ("x-priority", "abc"))})),
    (1, "Basic.Cancel", st.fixed_dictionaries({"consumer_tag": TAG, "nowait": SELDOM})),
    (4, "Basic.Ack", st.fixed_dictionaries({"pick": PICK, "multiple": FLAG})),
    (3, "Basic.Nack", st.fixed_dictionaries({"pick": PICK, "multiple": FLAG, "requeue": FLAG})),
    (2, "Basic.Reject", st.fixed_dictionaries({"pick": PICK, "requeue": FLAG})),
    (1, "Basic.Recover", st.fixed_dictionaries({"requeue": FLAG})),
    (2, "Basic.Qos", st.fixed_dictionaries({"prefetch_count": st.integers(0, 2), "global_": FLAG,
                                            "prefetch_size": RARELY.map(int)})),
    (1, "Confirm.Select", st.just({})),
    (1, "Tx.Select", st.just({})),
    (1, "Tx.Commit", st.just({})),
    (1, "Tx.Rollback", st.just({})),
    (1, "Channel.Close", st.just({"reply_code": 200, "reply_text": "", "class_id": 0, "method_id": 0})),
    (1, "Channel.Open", st.just({})),
]  # fmt: skip
WEIGHED = [(name, fields) for weight, name, fields in METHODS for _ in range(weight)]
STEP = st.builds(
    lambda where, drawn: Step(where, *drawn),
    st.sampled_from(CHANNELS),
    st.sampled_from(WEIGHED).flatmap(lambda one: st.tuples(st.just(one[0]), one[1])),
)
SETTING = st.one_of(
    st.builds(Step, st.sampled_from(CHANNELS), st.just("Queue.Declare"), PLAIN_QUEUE),
    st.builds(Step, st.sampled_from(CHANNELS), st.just("Queue.Declare"),
              st.fixed_dictionaries({"queue": Q, "arguments": QUEUE_ARGUMENTS})),
    st.builds(Step, st.sampled_from(CHANNELS), st.just("Exchange.Declare"),
              st.fixed_dictionaries({"exchange": X, "exchange_type": st.sampled_from(("direct", "fanout", "topic"))})),
    st.builds(Step, st.sampled_from(CHANNELS), st.just("Queue.Bind"),
              st.fixed_dictionaries({"queue": Q, "exchange": X, "routing_key": KEY})),
)  # fmt: skip
STOCK = st.builds(Step, st.sampled_from(CHANNELS), st.just("Basic.Publish"),
                  st.fixed_dictionaries({"exchange": st.just(""), "routing_key": Q}))  # fmt: skip
# Lists of lists are longer, and shrink as far.
SEQUENCE = st.tuples(
    st.lists(SETTING, max_size=6), st.lists(STOCK, max_size=6), st.lists(st.lists(STEP, max_size=9), max_size=9)
).map(lambda drawn: [*drawn[0], *drawn[1], *(step for steps in drawn[2] for step in steps)])
