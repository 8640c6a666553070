"""Looking at the queue while it runs: its depth, asked of the broker, and its gate, read from the broker's log."""

import re
import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from penstock.client import ClientError, Connection, ControlClient, Parameters

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
    crossings: int = 0
    """How often the gate had closed and opened until then."""


class Watch(threading.Thread):
    """Asks the broker again and again, on a connection of its own, how full the queue is."""

    def __init__(self, url: str, queue: str) -> None:
        """Connect. Raises `ClientError`."""
        super().__init__(daemon=True, name="watch")
        self._connection = Connection(Parameters.from_url(url))
        self._control = ControlClient(self._connection)
        self._queue = queue
        self._leave = threading.Event()
        self.samples: deque[Sample] = deque(maxlen=SAMPLES_KEPT)
        self.failure: ClientError | None = None

    def run(self) -> None:
        """Take samples until told to stop; a broker that does not answer is remembered as `failure`."""
        try:
            while not self._leave.is_set():
                asked = time.time()
                view = self._control.why(self._queue)
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
        last = self._control.why(self._queue)
        self._connection.close()
        return last

    def close(self) -> None:
        """Stop asking, whatever has happened."""
        self._leave.set()


def sampled(at: float, view: dict[str, Any]) -> Sample:
    """Return a sample from the broker's answer to `why`."""
    depth, gate = view["depth"], view["gate"]
    crossings = 2 * gate["crossings"] - (not gate["open"])  # the broker counts how often it closed
    return Sample(at, depth["messages"], depth["bytes"], gate["open"], len(view["blocked"]), crossings)


@dataclass(frozen=True)
class Span:
    """A time for which something was closed or blocked, in seconds since the epoch."""

    begin: float
    end: float


@dataclass
class Story:
    """What the broker's log tells about one queue."""

    crossings: list[tuple[float, int]] = field(default_factory=list)
    """When its gate closed or opened, and the depth in octets at that moment."""
    closed: list[Span] = field(default_factory=list)
    """When its gate was closed."""
    blocked: dict[str, list[Span]] = field(default_factory=dict)
    """When each producer was blocked by it, by the producer's user."""


_LINE = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) \[(.+)\] (QUE-100[34]|CHN-100[56]) : (.*)$")
_SIZE = re.compile(r"Size : ([\d,]+) bytes")
_USER = re.compile(r"con:\d+\(([^@]+)@")


def story(log: Iterable[str], queue: str, end: float) -> Story:
    """Read the log; what is not over in it ends at `end`. Right for producers that publish to this queue only."""
    told = Story()
    gate_since: float | None = None
    since: dict[str, float] = {}
    for line in log:
        found = _LINE.match(line)
        if found is None:
            continue
        # The log writes local time with milliseconds.
        at = datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S,%f").timestamp()  # noqa: DTZ007
        subject, code, text = found[2], found[3], found[4]
        if code.startswith("QUE") and subject.endswith(f"/qu({queue})"):
            size = _SIZE.search(text)
            told.crossings.append((at, int(size[1].replace(",", "")) if size else 0))
            if code == "QUE-1003":
                gate_since = at
            elif gate_since is not None:
                told.closed.append(Span(gate_since, at))
                gate_since = None
        elif code == "CHN-1005" and text.endswith(f"(Queue {queue})"):
            since[user_of(subject)] = at
        elif code == "CHN-1006" and user_of(subject) in since:
            user = user_of(subject)
            told.blocked.setdefault(user, []).append(Span(since.pop(user), at))
    if gate_since is not None:
        told.closed.append(Span(gate_since, end))
    for user, at in since.items():
        told.blocked.setdefault(user, []).append(Span(at, end))
    return told


def user_of(producer: str) -> str:
    """Return the user in a producer's name, such as con:2(pika@127.0.0.1:40312/)/ch:1; else the whole name."""
    found = _USER.match(producer)
    return found[1] if found else producer
