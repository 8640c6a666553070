"""Look-up of offsets by time, as a request."""

from __future__ import annotations

import pytest

from penstock.core.message import Envelope
from penstock.core.queue.indexed_ready_queue import CHUNK
from penstock.driver.driver import BrokerDriver
from penstock.flow.work import SHARE
from tests.support.control_requests import answer_to, answers, request, turns_until_answered
from tests.support.driven_connection import make_driver


def with_queue(count: int) -> BrokerDriver:
    """Return a driver with a queue of messages that arrive a second apart, from the second 1 on."""
    driver = make_driver()
    driver.broker.wall_offset = 1_000.0
    queue = driver.broker.vhosts["/"].declare_queue("q", {}, False, False, None, None)
    for number in range(1, count + 1):
        queue.enqueue(Envelope("", "q"), b"", 10, float(number))
    return driver


def test_time_lookup_answers_offset_arrival_and_ends_of_the_queue() -> None:
    driver = with_queue(10)
    found = answer_to(driver, "cursor.find", queues=["q"], timestamp=1_004_500_000)
    assert found == {"found": {"q": {"offset": 4, "arrived": 1_005_000_000, "earliest": 0, "tail": 10}}}
    driver.broker.vhosts["/"].declare_queue("empty", {}, False, False, None, None)
    found = answer_to(driver, "cursor.find", queues=["q", "empty"], timestamp=1_020_000_000)["found"]
    assert found["q"] == {"offset": 10, "arrived": None, "earliest": 0, "tail": 10}
    assert found["empty"] == {"offset": 0, "arrived": None, "earliest": 0, "tail": 0}


def test_wrong_requests_are_refused_in_a_sentence() -> None:
    driver = with_queue(1)
    driver.broker.vhosts["/"].declare_queue("first", {"x-max-priority": 3}, False, False, None, None)
    assert "no queue 'none'" in answer_to(driver, "cursor.find", queues=["none"], timestamp=1)["text"]
    assert "'timestamp' must be a whole number" in answer_to(driver, "cursor.find", queues=["q"], timestamp=-1)["text"]
    assert "queue 'first' has priorities" in answer_to(driver, "cursor.find", queues=["first"], timestamp=1)["text"]


@pytest.mark.once
def test_first_look_at_very_many_messages_takes_a_share_a_turn() -> None:
    driver = with_queue(2 * SHARE // 10 * CHUNK)
    work = turns_until_answered(driver, request("cursor.find", queues=["q"], timestamp=1_004_500_000))
    assert len(work) >= 2
    assert answers(driver)[0]["found"]["q"]["offset"] == 4
