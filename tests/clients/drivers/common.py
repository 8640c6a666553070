"""What the drivers in Python share: the words of their command line, and how they tell what happens.

A driver is a program that does one thing with one client library: it publishes `count` messages of `size` octets, their
number in front, to the queue `held`, with or without confirms, and meanwhile consumes from the queue `beside`,
acknowledging. It writes one JSON object a line: {"version"}, {"received"}, {"confirmed"}, {"refused"}, {"failed"} (with
the client's own words), and {"done"} when it has got rid of all its messages. With the way "idle" it publishes one
message, and the others when its consumer has received one. When its standard input ends it
says goodbye and leaves. Without confirms its consumer has a connection of its own, where the client publishes on one
that the broker may have to leave unread.
"""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import dataclass

WINDOW = 50
"""Publishes that may be unconfirmed at once, of clients that do not wait for each."""

_writing = threading.Lock()


@dataclass
class Task:
    """What is to be done."""

    url: str
    held: str
    beside: str
    count: int
    size: int
    confirms: bool
    idle: bool = False
    """True if it publishes one message, and the others when its consumer has received one."""

    def body(self, number: int) -> bytes:
        return str(number).encode().ljust(self.size)


def read_task() -> Task:
    url, held, beside, count, size, way = sys.argv[1:]
    return Task(url, held, beside, int(count), int(size), way == "confirms", way == "idle")


def tell(**event: object) -> None:
    with _writing:
        print(json.dumps(event), flush=True)


def told_to_leave() -> threading.Event:
    """Return what is set when standard input ends."""
    leaving = threading.Event()

    def watch() -> None:
        sys.stdin.read()
        leaving.set()

    threading.Thread(target=watch, daemon=True).start()
    return leaving
