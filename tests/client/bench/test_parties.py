"""Senders and receivers of a load: intervals, and times in the bodies."""

from __future__ import annotations

import time
from multiprocessing import Pipe
from typing import Any

from penstock import sync
from penstock.client.bench.parties import STAMP, Histogram, Load, Plan, Track, bucket_of, take_part
from penstock.client.bench.target import Target

SECOND = 10**9


def test_track_counts_by_interval_and_separates_late_messages() -> None:
    track = Track(Plan("", "", 10 * SECOND, 2, Load(interval=1.0)))
    for at in (10, 11, 12, 99):
        track.add(at * SECOND, at)
    assert [list(each.counts) for each in track.intervals] == [[10], [11], [12, 99]]


def played(role: str, plan: Plan, *words: object) -> list[dict[str, Any]]:
    """Run a party in this process; what it has reported."""
    ours, theirs = Pipe()
    for word in words:
        ours.send(word)
    take_part(role, plan, theirs)
    theirs.close()
    found = []
    while ours.poll():
        try:
            found.append(ours.recv())
        except (EOFError, ConnectionResetError):
            break
    return found


def test_message_at_a_rate_has_the_due_time(target: Target) -> None:
    start = time.monotonic_ns()
    with target.queue() as queue:
        plan = Plan(target.url, queue, 0, 2, Load(interval=0.1, rate=100.0, size=20))
        *_, end = played("sender", plan, start)
        with sync.connect(target.url) as connection, connection.receiver(queue) as receiver:
            stamps = []
            for _ in range(20):
                delivery = receiver.receive(5)
                assert len(delivery.body) == 20
                stamps.append(int.from_bytes(delivery.body[:STAMP], "big"))
                delivery.accept()
    assert stamps == [start + number * SECOND // 100 for number in range(20)]
    assert (end["messages"], end["refused"], end["unknown"], end["unsent"]) == (20, 0, 0, 0)
    assert sum(Histogram(each).total for each in end["track"]) == 20


def test_late_sender_measures_from_the_time_at_which_a_message_was_due(target: Target) -> None:
    start = time.monotonic_ns() - SECOND
    with target.queue() as queue:
        *_, end = played("sender", Plan(target.url, queue, 0, 1, Load(interval=1.0, rate=10.0)), start)
    times = [index for each in end["track"] for index, _ in each]
    assert end["messages"] == 10
    assert max(times) >= bucket_of(SECOND)


def test_receiver_takes_the_sent_messages_and_ends_when_none_comes(target: Target) -> None:
    start = time.monotonic_ns()
    with target.queue() as queue:
        plan = Plan(target.url, queue, 0, 1, Load(interval=0.5, most=500))
        *_, sent = played("sender", plan, start)
        ready, *_, end = played("receiver", plan, start, "end")
    assert ready["ready"]
    assert sent["messages"] == end["messages"] == 500
    assert sum(Histogram(each).total for each in end["track"]) == 500


def test_error_of_a_party_is_reported(target: Target) -> None:
    (found,) = played("receiver", Plan(target.url, "no-such-queue", 0, 1, Load(interval=0.1)), 0)
    assert "no-such-queue" in found["error"]
