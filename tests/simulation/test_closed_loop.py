"""Recordings of producers in a closed loop: they publish as soon as a confirm comes, as fast as their window admits."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from penstock_simulation.recording import Recording, record
from penstock_simulation.replay import compare

START = 1_000_000.0
ABOUT = {"kind": "queue", "gate": "orders", "vhost": "/", "queue": "orders"}
MARKS = {"capacity_messages": 200, "stop_messages": 160, "resume_messages": 100}
WINDOW, SERVICES, STEP = 30, 450, 10
CYCLE_S, FILL_S = 0.34, 0.09
"""Seconds from a closing to the next one: 101 messages in a fill, and 52 more of the windows to the closed gate."""
SECONDS = 10


def crossings(seconds: float) -> Iterator[dict[str, Any]]:
    """Yield closings and openings, and the blocks of both producers with them."""
    for number in count():
        closes = 0.2 + number * CYCLE_S
        opens = closes + CYCLE_S - FILL_S
        if opens > seconds:
            return
        for event, block, at, messages in (("gate-closed", "blocked", closes, 161),
                                           ("gate-opened", "unblocked", opens, 100)):  # fmt: skip
            yield {"event": event, "wall": START + at, **ABOUT, "messages": messages, "bytes": messages * 760}
            for producer in "ab":
                yield {"event": block, "wall": START + at, **ABOUT, "producer": producer}


def loop_log(seconds: int = SECONDS, idle: int = 0, **looks: int) -> list[dict[str, Any]]:
    """Return the records of two producers in a closed loop, as a broker writes them, and of some idle seconds."""
    records: list[dict[str, Any]] = [
        {"event": "start", "wall": START},
        {"event": "queue", "wall": START, **ABOUT, **MARKS},
        {"event": "consumer", "wall": START + 1, **ABOUT, "consumer": "c", "prefetch": 40},
        *crossings(seconds),
    ]
    for second in range(1, seconds + idle + 1):
        works = second <= seconds
        left = SERVICES if works else 15 if second == seconds + 1 else 0
        sample = {"in_messages": (600 if second == 1 else SERVICES) if works else 0, "settled_messages": left,
                  "settlements": left // STEP, "seconds": 1.0, "consumers": 1, "sizes": [0] * 10 + [1]}  # fmt: skip
        depth = {"messages": 150 if works else 135, "bytes": 0} | ({"unconfirmed": WINDOW} | looks if works else {})
        records.append({"event": "depth", "wall": START + second, **ABOUT, **sample, **depth})
    return records


def offers(recording: Recording) -> int:
    workload = recording.workload()
    return sum(1 for index in range(len(workload.sources)) for _ in workload.arrivals_of(index))


def test_replay_of_a_closed_loop_has_the_crossings_and_the_closed_time_of_the_log() -> None:
    found = record(loop_log(), "orders")
    assert (found.window, found.step, found.is_closed_loop) == (WINDOW, STEP, True)
    assert found.pace == pytest.approx(101 / FILL_S), "61 by which the queue grew, and 40 that were settled meanwhile"
    same = compare(found, found.candidate(), None).same
    assert same.crossings == pytest.approx(found.crossings, rel=0.1)
    assert same.closed == pytest.approx(found.measures()["closed"], rel=0.1)
    assert same.wait_p99 < 1, "a message in a closed loop is made when the window admits it"


def test_replay_of_a_closed_loop_fills_another_capacity_as_well() -> None:
    """From 400 to 640 messages again and again, by what producers had and could not publish."""
    found = record(loop_log(), "orders")
    comparison = compare(found, found.candidate(), found.candidate().with_changes(capacity_messages=800))
    assert comparison.other is not None
    cycle_s = (640 - 400) / (found.pace - SERVICES) + (640 - 400 + 2 * WINDOW) / SERVICES
    assert comparison.other.crossings == pytest.approx(SECONDS / cycle_s, rel=0.25)
    assert comparison.other.closed > 0.5


def test_producers_in_a_closed_loop_that_end_offer_no_more_than_they_did() -> None:
    ended = record(loop_log(idle=5), "orders")
    assert not ended.ends_closed
    assert offers(ended) == ended.messages == 600 + (SECONDS - 1) * SERVICES
    going_on = record(loop_log(), "orders")
    assert offers(going_on) == 2 * going_on.messages


def test_producers_that_are_far_from_their_windows_are_in_no_closed_loop() -> None:
    looks = loop_log()
    for number, each in enumerate(each for each in looks if each["event"] == "depth"):
        each["unconfirmed"] = 1000 if number % 5 == 0 else 10 * number
    found = record(looks, "orders")
    assert (found.window, found.is_closed_loop) == (1000, False)


def test_time_with_closings_that_have_no_records_is_no_fill() -> None:
    records = loop_log()
    brief = [{"event": "brief-closings", "wall": START + 0.2 + number * CYCLE_S - 0.01, **ABOUT, "count": 1,
              "brief_s": 0.001} for number in range(1, 6)]  # fmt: skip
    assert len(record(records, "orders").fills) - 5 == len(record([*records, *brief], "orders").fills)


def test_part_of_a_log_begins_with_the_queue_and_counts_parts_of_samples() -> None:
    part = record(loop_log(), "orders", START + 3.5, START + 6.25)
    assert part.seconds == 2.75
    assert part.messages == 225 + 2 * 450 + round(0.25 * 450)
    first = part.workload().arrivals_of(0)
    assert [next(first).at for _ in range(75)] == [0.0] * 75, "half of the 150 messages in the queue"
