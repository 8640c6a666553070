"""Sentences of `penstock why` about the bridges of a queue: who takes its messages elsewhere, and what holds it.

The broker at the other end has told the bridge why it holds it. Its sentences are passed on as they are, so that an
answer goes through all brokers of a row.
"""

from __future__ import annotations

from typing import Final

from penstock.access.rules import Rules
from penstock.core.queue.queue import Queue
from penstock.describe.table import Row
from penstock.management.bridge_ends import SOURCE, TARGET
from penstock.management.bridges import MOVING, PAUSED, Bridge, BridgeTable
from penstock.texts import counted, shown_age

BRIDGES_SAID: Final = 5
"""Most bridges of a queue in an answer."""


def bridges_at(queue: Queue, bridges: BridgeTable, rules: Rules) -> list[Bridge]:
    """Return the first bridges with the queue at one of their ends; those that take its messages come first.

    Those of virtual hosts that the asker may not enter are left out.
    """
    its = [each for each in bridges.all() if each.vhost == queue.vhost or rules.enters(each.vhost)]
    found = [each for side in (SOURCE, TARGET) for each in its if each.has_queue(side, queue.vhost, queue.name)]
    return found[:BRIDGES_SAID]


def rows_of(found: list[Bridge]) -> list[Row]:
    """Return the bridges of a queue as plain data."""
    return [bridge.row() for bridge in found]


def sentences_of(queue: Queue, found: list[Bridge], wall: float) -> list[str]:
    """Return what each bridge does, and what holds it at the other end; `wall` is now, in seconds since 1970."""
    sentences: list[str] = []
    for bridge in found:
        takes = bridge.has_queue(SOURCE, queue.vhost, queue.name)
        sentences.append(_sentence(queue, bridge, takes, wall))
        if takes:
            sentences += [f"there: {each.removeprefix('there: ')}" for each in _sentences_there(bridge)]
    return sentences


def _sentence(queue: Queue, bridge: Bridge, takes: bool, wall: float) -> str:
    state, reason = bridge.state()
    since = bridge.report.get("since")
    way = f"takes messages of queue {queue.name} to {bridge.end(TARGET)}" if takes else (
        f"brings messages of {bridge.end(SOURCE)} to queue {queue.name}"
    )  # fmt: skip
    name = f"{bridge.component} {bridge.name}"
    if state == PAUSED:
        return f"{name} {way}, and is paused: `penstock bridges resume {bridge.name}` runs it"
    age = f" for {shown_age(max(wall - since, 0.0))}" if isinstance(since, (int, float)) else ""
    if state == MOVING:
        return f"{name} {way}, and is {state}: {counted(bridge.count('carried'), 'message')} carried"
    return f"{name} {way}, and is {state}{age}" + (f": {reason}" if reason else "")


def _sentences_there(bridge: Bridge) -> list[str]:
    why = bridge.report.get("why")
    return [str(each) for each in why] if isinstance(why, list) else []
