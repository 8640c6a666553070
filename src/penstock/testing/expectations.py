"""Assertions about a broker: each waits for a state of the broker, and fails with one sentence about the last state.

This module is independent of the kind of broker: `BrokerUnderTest` reads the broker of this process, `BrokerProcess`
asks over HTTP. Both return the answer of `penstock why`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final, NoReturn

WITHIN_S: Final = 10.0
"""Real seconds that an assertion waits by default."""
LISTED_MOST: Final = 5
"""Most messages that a failure names."""
SENTENCES_MOST: Final = 3
"""Most sentences of `penstock why` in a failure."""
View = dict[str, Any]
"""Answer of `penstock why` about one queue or connection."""


class Observed(ABC):
    """A broker whose state can be read and awaited."""

    def queue(self, name: str) -> Subject:
        """Return a queue for assertions; the queue need not be declared yet."""
        return Subject(self, "queue", name)

    def connection(self, name: str) -> Subject:
        """Return a connection for assertions: by its client's `connection_name`, its port, or its name in the log."""
        return Subject(self, "connection", name)

    @property
    @abstractmethod
    def within_s(self) -> float:
        """Real seconds that assertions wait by default."""

    @abstractmethod
    def look(self, kind: str, name: str) -> View | None:
        """Return the present state of a `queue` or `connection`; None if it does not exist."""

    @abstractmethod
    def wait_for(self, kind: str, name: str, holds: Callable[[View], bool], within_s: float) -> bool:
        """Wait until a condition holds for the state of a queue or connection; return False after `within_s`
        seconds."""

    @abstractmethod
    def settle(self) -> None:
        """Wait until all accepted messages are on the disk; returns at once without a store."""


class Subject:
    """A queue or a connection of a broker, for assertions."""

    def __init__(self, broker: Observed, kind: str, name: str) -> None:
        self.broker = broker
        self.kind = kind
        """`queue` or `connection`."""
        self.name = name

    def __str__(self) -> str:
        return f"{self.kind} '{self.name}'"

    def __repr__(self) -> str:
        return f"<{self}>"

    @property
    def view(self) -> View:
        """Present state, as `penstock why --json` shows it.

        Raises AssertionError if the queue or connection does not exist.
        """
        view = self.broker.look(self.kind, self.name)
        if view is None:
            raise AssertionError(f"there is no {self}")
        return view

    @property
    def depth(self) -> int:
        """Messages in the queue now, unacknowledged ones included."""
        return int(self._of_queue("depth")["messages"])

    @property
    def highest_depth(self) -> int:
        """Most messages that were ever in the queue at once."""
        return int(self._of_queue("highest")["messages"])

    @property
    def reason(self) -> str:
        """Reason for which publishers wait, in the words of `penstock why`."""
        return "; ".join(self.view["sentences"][:SENTENCES_MOST])

    def _of_queue(self, key: str) -> Any:
        if self.kind != "queue":
            raise TypeError(f"{self} has no depth: name a queue")
        return self.view[key]

    def await_state(self, holds: Callable[[View], bool], within: float | None, wanted: str) -> View:
        """Wait for a state, and return it. Raises AssertionError with the wanted and the present state."""
        __tracebackhide__ = True
        within_s = self.broker.within_s if within is None else within
        if not self.broker.wait_for(self.kind, self.name, holds, within_s):
            view = self.broker.look(self.kind, self.name)
            there = f"there is no {self}" if view is None else "; ".join(view["sentences"][:SENTENCES_MOST])
            _fail(f"{wanted} within {within_s:g} s: {there}")
        return self.view


def assert_held(subject: Subject, within: float | None = None) -> None:
    """Assert that a publish is held by this queue, or of this connection, or waits there for its confirm or credit.

    `within`: real seconds to wait; None: the broker's default.
    """
    __tracebackhide__ = True
    subject.await_state(_waits, within, f"no publish is held by {subject}")


def assert_confirmed(subject: Subject, messages: int | None = None, within: float | None = None) -> None:
    """Assert that every publish so far has its answer: no publish is held, and no confirm is withheld.

    `messages`: least number of messages that have entered the queue altogether; None for any number.
    """
    __tracebackhide__ = True
    if messages is not None and subject.kind != "queue":
        raise TypeError(f"{subject} does not count messages: name a queue")

    def holds(view: View) -> bool:
        return not _waits(view) and (messages is None or int(view["tail"]) >= messages)

    many = "all publishes" if messages is None else f"{messages:,} publishes"
    subject.await_state(holds, within, f"{subject} has not confirmed {many}")
    subject.broker.settle()


def assert_depth(subject: Subject, messages: int, within: float | None = None) -> None:
    """Assert the number of messages in a queue, unacknowledged ones included."""
    __tracebackhide__ = True
    subject.await_state(
        lambda view: int(view["depth"]["messages"]) == messages, within, f"{subject} has not {messages:,} messages"
    )


def assert_depth_never_above(subject: Subject, messages: int) -> None:
    """Assert that a queue never had more messages at once: by its high-water mark, not by sampling."""
    __tracebackhide__ = True
    highest = subject.highest_depth
    if highest > messages:
        _fail(f"{subject} has held {highest:,} messages at once, more than {messages:,}")


def assert_lost_nothing(sent: Iterable[Hashable], got: Iterable[Hashable], doubles: bool = True) -> None:
    """Assert that all sent messages were received, and no others.

    `doubles`: whether a message may come again, as at-least-once delivery allows.
    """
    __tracebackhide__ = True
    wanted, found = Counter(sent), Counter(got)
    missing = list((wanted - found).elements())
    strange = [each for each in found if each not in wanted]
    again = [] if doubles else [each for each in (found - wanted) if each in wanted]
    total = sum(wanted.values())
    faults = [
        f"{len(each):,} {what}: {_listed(each)}"
        for each, what in (
            (missing, f"of {total:,} messages are lost"),
            (strange, "messages were received that nobody has sent"),
            (again, "messages were received more often than sent"),
        )
        if each
    ]
    if faults:
        _fail("; ".join(faults))


def _waits(view: View) -> bool:
    """Return whether a publish waits at a queue's gates, or waits in a session of a connection."""
    if "queue" in view:
        return any(view["waiting"].values())
    return any(
        producer["held"]["messages"] or producer["withheld"] or _lacks_credit(producer)
        for channel in view["channels"]
        for producer in [channel["publishing"], *channel.get("links", [])]
        if producer is not None
    )


def _lacks_credit(producer: View) -> bool:
    """Return whether a sender of AMQP 1.0 may send nothing because a gate is closed."""
    return "credit" in producer and producer["credit"]["credit"] == 0 and producer["waits_at"] is not None


def _listed(messages: Sequence[object]) -> str:
    more = len(messages) - LISTED_MOST
    return ", ".join(repr(each) for each in messages[:LISTED_MOST]) + (f" and {more:,} more" if more > 0 else "")


def _fail(sentence: str) -> NoReturn:
    __tracebackhide__ = True
    raise AssertionError(sentence)
