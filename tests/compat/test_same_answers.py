"""Random sequences of methods: ours answers as RabbitMQ does; alone, its invariants hold."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from pamqp import commands

from bench.brokers import RABBITMQ
from tests.compat.conftest import BROKERS, OURS
from tests.profiles import examples
from tests.support.compared_broker import Address, Side
from tests.support.known_differences import expected
from tests.support.method_sequences import QUEUES, SEQUENCE, Step

pytestmark = pytest.mark.clients

EXAMPLES = int(os.environ.get("PENSTOCK_SEQUENCES", examples(200)))
PATIENCE = 1.5
"""Seconds that RabbitMQ's queues get to do what they do in their own time."""
CODES = {200, 311, 312, 313, 402, 403, 404, 405, 406, 501, 502, 503, 504, 505, 506, 530, 540}


@pytest.fixture(scope="module")
def ours(url_of: Callable[[str], str]) -> Side:
    return side(OURS, url_of)


@pytest.fixture(scope="module")
def theirs(url_of: Callable[[str], str]) -> Side:
    if RABBITMQ not in BROKERS:
        pytest.skip("PENSTOCK_BESIDE=rabbitmq asks for it")
    return side(RABBITMQ, url_of)


def side(name: str, url_of: Callable[[str], str]) -> Side:
    return Side(name, Address("127.0.0.1", int(url_of(name).rstrip("/").rpartition(":")[2])))


def difference(ours: Side, theirs: Side) -> tuple[Any, Any, Any] | None:
    """Return what differs, ours and theirs, once they have had time to become the same; None if they have."""
    deadline = time.monotonic() + PATIENCE
    while True:
        mine, other = ours.seen(), theirs.seen()
        if mine == other:
            return None
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    where = next(key for key in {**mine, **other} if mine.get(key) != other.get(key))
    return where, mine.get(where), other.get(where)


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(SEQUENCE)
def test_sequence_of_methods_is_answered_as_by_rabbitmq(ours: Side, theirs: Side, steps: list[Step]) -> None:
    prefix = f"{uuid.uuid4().hex[:6]}-"
    ours.begin(prefix)
    theirs.begin(prefix)
    try:
        for at, step in enumerate(steps):
            tag = ours.tag(step)
            for each in (ours, theirs):
                each.act(step, tag)
                each.settled(step, tag)
            found = difference(ours, theirs)
            if found is not None:
                if expected(step, *found):
                    return
                where, mine, other = found
                told = "\n".join(f"  {one!r}" for one in steps[: at + 1])
                pytest.fail(f"after\n{told}\n{where} differs:\nours   {mine}\ntheirs {other}")
    finally:
        ours.end()
        theirs.end()


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(SEQUENCE)
def test_sequence_of_methods_is_answered_and_its_counts_add_up(ours: Side, steps: list[Step]) -> None:
    ours.begin(f"{uuid.uuid4().hex[:6]}-")
    try:
        for step in steps:
            tag = ours.tag(step)
            ours.act(step, tag)
            ours.settled(step, tag)
            check(ours.seen())
            confirmed(ours)
        emptied(ours)
    finally:
        ours.end()


def check(seen: dict[Any, Any]) -> None:
    """Closes say why in AMQP's codes, and nobody is given what he has not asked for."""
    said = [reply for key, value in seen.items() if key != "there is" for reply in (value[1] if key[1] else value)]
    assert "the socket was closed without a word" not in said
    closes = [reply for reply in said if reply[0] in ("Channel.Close", "Connection.Close")]
    assert [close for close in closes if close[1] not in CODES] == []


def confirmed(ours: Side) -> None:
    """Every publish of a channel in confirm mode has been answered; that none is twice, `Wire` has seen to."""
    for wire in ours.wires.values():
        for channel in wire.channels.values():
            assert sorted(channel.confirms) == list(range(1, channel.published + 1))


def emptied(ours: Side) -> None:
    """A queue that is got from until it is empty gives as many messages as it said, counting down."""
    for name in QUEUES:
        step = Step((0, 9), "Queue.Declare", {"queue": name})
        ours.act(step, 0)
    wire = ours.wires[0]
    channel = wire.channel(9)
    for name, count in ours.look().items():
        if name not in QUEUES or not isinstance(count, tuple) or not channel.is_open:
            continue
        for left in reversed(range(count[0])):
            ours.act(Step((0, 9), "Basic.Get", {"queue": name, "no_ack": True}), 0)
            method, fields, _ = channel.replies[-1]
            assert (method, fields["message_count"]) == (commands.Basic.GetOk.name, left)
        ours.act(Step((0, 9), "Basic.Get", {"queue": name, "no_ack": True}), 0)
        assert channel.replies[-1][0] == commands.Basic.GetEmpty.name
