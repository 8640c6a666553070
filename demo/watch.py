"""Looking at the queue: its depth, asked of the broker while it runs, and its gate, read from the flow log."""

import re
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.client.errors import ClientError
from penstock.sync import connect

SAMPLE_SECONDS = 0.05
SAMPLES_KEPT = 100_000
"""More than an hour of them."""


@dataclass(frozen=True)
class Sample:
    """The queue at one time, in seconds since the epoch."""

    at: float
    messages: int
    octets: int
    gate_open: bool
    blocked: int
    """Producers that are blocked."""


class Watch(threading.Thread):
    """Asks the broker again and again, on a connection of its own, how full the queue is."""

    def __init__(self, url: str, queue: str) -> None:
        """Connect. Raises `ClientError`."""
        super().__init__(daemon=True, name="watch")
        self._control = connect(url, protocol="amqp091", reconnect=False)
        self._queue = queue
        self._leave = threading.Event()
        self.samples: deque[Sample] = deque(maxlen=SAMPLES_KEPT)
        self.failure: ClientError | None = None

    def run(self) -> None:
        """Take samples until told to stop; a broker that does not answer is remembered as `failure`."""
        try:
            while not self._leave.is_set():
                asked = time.time()
                view = self._control.why(self._queue).raw
                self.samples.append(sampled((asked + time.time()) / 2, view))
                self._leave.wait(SAMPLE_SECONDS)
        except ClientError as error:
            self.failure = error

    def finish(self) -> dict[str, Any]:
        """Stop, and return the broker's last word about the queue. Raises `ClientError`."""
        self._leave.set()
        self.join()
        if self.failure is not None:
            raise self.failure
        last = self._control.why(self._queue).raw
        self._control.close()
        return last

    def close(self) -> None:
        """Stop asking, whatever has happened."""
        self._leave.set()


def sampled(at: float, view: dict[str, Any]) -> Sample:
    """Return a sample from the broker's answer to `why`."""
    depth = view["depth"]
    return Sample(at, depth["messages"], depth["bytes"], view["gate"]["open"], len(view["blocked"]))


@dataclass(frozen=True)
class Span:
    """A time in which a gate was closed, or blocked a producer, in seconds since the epoch."""

    begin: float
    end: float
    count: int = 1
    """Closings or blocks in it."""
    share: float = 1.0
    """Part of the time that they took: 1 for one that has records of its own, less for a sum of brief ones."""

    @property
    def seconds(self) -> float:
        return (self.end - self.begin) * self.share


@dataclass
class Story:
    """What the flow log tells about one queue."""

    crossings: list[tuple[float, int]] = field(default_factory=list)
    """When its gate closed or opened, and the depth in octets at that moment; without closings that are summed."""
    closed: list[Span] = field(default_factory=list)
    """When its gate was closed."""
    blocked: dict[str, list[Span]] = field(default_factory=dict)
    """When each producer was blocked by it, by the producer's user."""

    @property
    def closings(self) -> int:
        return sum(span.count for span in self.closed)


CLOSINGS = ("gate-closed", "gate-opened", "brief-closings")
BLOCKS = ("blocked", "unblocked", "brief-blocks")
"""Events of a beginning, an end, and a sum of brief ones."""
SUM_SECONDS = 1.0
"""Time that a sum stands for, or more; where in it the gate was closed is not recorded."""
OTHERS = "others"
"""Producers that a sum does not name."""


def story(records: Iterable[Mapping[str, Any]], queue: str, end: float) -> Story:
    """Read the records of a flow log; what is not over in them ends at `end`."""
    told = Story()
    since: dict[str, float] = {}  # by producer; the gate has no name
    for record in records:
        event, at = record["event"], record["wall"]
        if record.get("queue") != queue or event not in CLOSINGS + BLOCKS:
            continue
        name, spans = "", told.closed
        if event in BLOCKS:
            name = record.get("producer", OTHERS)
            spans = told.blocked.setdefault(user_of(name), [])
        elif "brief_s" not in record:
            told.crossings.append((at, record["bytes"]))
        if "brief_s" in record:
            seconds = max(SUM_SECONDS, record["brief_s"])
            spans.append(Span(at, at + seconds, record["count"], record["brief_s"] / seconds))
        elif event in (CLOSINGS[0], BLOCKS[0]):
            since[name] = at
        elif name in since:
            spans.append(Span(since.pop(name), at))
    for name, at in since.items():
        (told.blocked[user_of(name)] if name else told.closed).append(Span(at, end))
    return told


_USER = re.compile(r"con:\d+\(([^@]+)@")


def user_of(producer: str) -> str:
    """Return the user in a producer's name, such as con:2(pika@127.0.0.1:40312/)/ch:1; else the whole name."""
    found = _USER.match(producer)
    return found[1] if found else producer
