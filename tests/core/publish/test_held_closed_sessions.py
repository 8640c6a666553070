"""Publishers without confirms whose process ends while their publishes are held: kept and lost ones."""

from __future__ import annotations

import pytest

from penstock.driver.driver import BrokerDriver
from tests.support.closed_publishers import (
    CAPACITY,
    SENT,
    end,
    notices,
    publisher,
    queue_of,
    recording_driver,
    refusals,
    take_all,
)
from tests.support.driven_connection import Dialogue, publish
from tests.support.log_lines import texts


@pytest.fixture
def driver() -> BrokerDriver:
    return recording_driver()


def test_publishes_of_a_closed_session_go_in_in_turn(driver: BrokerDriver) -> None:
    end(driver, publisher(driver))
    assert (driver.broker.closed_session_budget.messages, queue_of(driver).messages) == (SENT - CAPACITY, CAPACITY)
    assert take_all(driver, 105.0) == [b"%d" % number for number in range(SENT)]
    assert (
        driver.broker.closed_session_budget.messages,
        driver.broker.closed_session_budget.bytes,
        driver.broker.closed_session_budget.producers,
    ) == (0, 0, {})
    assert queue_of(driver).counters.refused == 0
    assert texts(driver.log_queue, "PST-1019") == []


def test_publishes_of_a_closed_session_in_confirm_mode_are_dropped() -> None:
    driver = recording_driver()
    end(driver, publisher(driver, confirms=True))
    assert driver.broker.closed_session_budget.messages == 0
    assert take_all(driver, 105.0) == [b"%d" % number for number in range(CAPACITY)]
    assert queue_of(driver).counters.refused == SENT - CAPACITY
    assert refusals(driver) == [("unconfirmed", SENT - CAPACITY)]
    (line,) = texts(driver.log_queue, "PST-1019")
    assert "20 held when the connection ended, never confirmed" in line


def test_publishes_of_a_closed_session_are_lost_at_the_deadline_and_logged() -> None:
    driver = recording_driver()
    end(driver, publisher(driver))
    driver.begin(109.9)
    assert not driver.run_turn()
    assert (texts(driver.log_queue, "PST-1019"), driver.broker.closed_session_budget.messages) == ([], SENT - CAPACITY)
    driver.begin(110.1)
    assert not driver.run_turn()
    assert driver.broker.closed_session_budget.messages == 0
    (line,) = texts(driver.log_queue, "PST-1019")
    assert "20 held until their deadline; publish to " in line
    assert "refused after its hold deadline" in line
    assert "queue 'q' holds 20 messages" in line
    assert queue_of(driver).counters.refused == SENT - CAPACITY
    assert refusals(driver) == [("deadline", SENT - CAPACITY)]
    assert (driver.broker.closed_session_budget.bytes, driver.broker.closed_session_budget.producers) == (0, {})


def test_publishes_of_a_closed_session_beyond_the_byte_bound_are_lost(driver: BrokerDriver) -> None:
    client = publisher(driver)
    each = client.connection.pausing.budget.bytes // (SENT - CAPACITY)
    driver.broker.closed_session_budget.charges.set_limit(each * 13)  # A user has half, without the reserve.
    end(driver, client)
    assert driver.broker.closed_session_budget.messages == 6
    assert take_all(driver, 105.0) == [b"%d" % number for number in range(CAPACITY + 6)]
    assert refusals(driver) == [("linger-bound", SENT - CAPACITY - 6)]
    (line,) = texts(driver.log_queue, "PST-1019")
    assert "14 held when the connection ended, beyond the bound for such publishes" in line


def test_closed_sessions_that_linger_are_bounded(driver: BrokerDriver) -> None:
    first, second = publisher(driver), Dialogue(driver)
    second.say(publish("q", b"second"))
    driver.broker.closed_session_budget.sessions.set_limit(1)
    end(driver, first)
    end(driver, second)
    assert len(driver.broker.closed_session_budget.producers) == 1
    assert refusals(driver) == [("linger-bound", 1)]
    assert take_all(driver, 105.0) == [b"%d" % number for number in range(SENT)]


def test_closed_session_is_unknown_to_gates_after_the_last_publish(driver: BrokerDriver) -> None:
    end(driver, publisher(driver))
    take_all(driver, 105.0)
    gate = queue_of(driver).gate
    assert (len(gate.waiters), len(gate.blocked), gate.stats.blocked()) == (0, 0, {})


def test_block_that_ends_before_the_notice_was_sent_is_not_reported(driver: BrokerDriver) -> None:
    client = Dialogue(driver).declare("q", capacity_messages=1)
    assert notices(client, publish("q", b"1")) > 0
    queue_of(driver).purge(driver.broker.now)
    assert client.listen() == []
    assert client.names(publish("q", b"2")) == ["connection.blocked"]


def test_publishes_of_closed_sessions_are_counted_and_logged_at_a_broker_stop(driver: BrokerDriver) -> None:
    end(driver, publisher(driver))
    driver.end_lingering()
    assert not driver.run_turn()
    assert (driver.broker.closed_session_budget.messages, queue_of(driver).counters.refused) == (0, SENT - CAPACITY)
    (line,) = texts(driver.log_queue, "PST-1019")
    assert "20 held when the broker stopped, or ended the channel or the connection" in line
