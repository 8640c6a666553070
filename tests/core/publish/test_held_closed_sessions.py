"""Publishers without confirms whose process ends while their publishes are held: what goes in, and what is lost."""

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


def test_what_a_publisher_sent_before_it_closed_its_side_goes_in_in_turn(driver: BrokerDriver) -> None:
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


def test_in_confirm_mode_what_is_held_is_dropped_for_its_publisher_has_to_publish_it_again() -> None:
    driver = recording_driver()
    end(driver, publisher(driver, confirms=True))
    assert driver.broker.closed_session_budget.messages == 0
    assert take_all(driver, 105.0) == [b"%d" % number for number in range(CAPACITY)]
    assert queue_of(driver).counters.refused == SENT - CAPACITY
    assert refusals(driver) == [("unconfirmed", SENT - CAPACITY)]
    (line,) = texts(driver.log_queue, "PST-1019")
    assert "20 held when the connection ended, never confirmed" in line


def test_what_has_waited_for_its_deadline_is_lost_with_the_gate_that_stopped_it_in_the_log() -> None:
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


def test_what_goes_beyond_the_bound_of_bytes_is_lost_and_what_came_before_goes_in(driver: BrokerDriver) -> None:
    client = publisher(driver)
    each = client.connection.pausing.budget.bytes // (SENT - CAPACITY)
    driver.broker.closed_session_budget.charges.set_limit(each * 13)  # A user has half, without the reserve.
    end(driver, client)
    assert driver.broker.closed_session_budget.messages == 6
    assert take_all(driver, 105.0) == [b"%d" % number for number in range(CAPACITY + 6)]
    assert refusals(driver) == [("linger-bound", SENT - CAPACITY - 6)]
    (line,) = texts(driver.log_queue, "PST-1019")
    assert "14 held when the connection ended, beyond the bound for such publishes" in line


def test_no_more_sessions_linger_than_are_allowed(driver: BrokerDriver) -> None:
    first, second = publisher(driver), Dialogue(driver)
    second.say(publish("q", b"second"))
    driver.broker.closed_session_budget.sessions.set_limit(1)
    end(driver, first)
    end(driver, second)
    assert len(driver.broker.closed_session_budget.producers) == 1
    assert refusals(driver) == [("linger-bound", 1)]
    assert take_all(driver, 105.0) == [b"%d" % number for number in range(SENT)]


def test_after_the_last_of_a_connection_has_gone_no_gate_knows_it(driver: BrokerDriver) -> None:
    end(driver, publisher(driver))
    take_all(driver, 105.0)
    gate = queue_of(driver).gate
    assert (len(gate.waiters), len(gate.blocked), gate.stats.blocked()) == (0, 0, {})


def test_a_block_that_is_over_before_its_notice_went_out_is_not_told(driver: BrokerDriver) -> None:
    client = Dialogue(driver).declare("q", capacity_messages=1)
    assert notices(client, publish("q", b"1")) > 0
    queue_of(driver).purge(driver.broker.now)
    assert client.listen() == []
    assert client.names(publish("q", b"2")) == ["connection.blocked"]


def test_what_lingers_when_the_broker_stops_is_counted_and_logged(driver: BrokerDriver) -> None:
    end(driver, publisher(driver))
    driver.end_lingering()
    assert not driver.run_turn()
    assert (driver.broker.closed_session_budget.messages, queue_of(driver).counters.refused) == (0, SENT - CAPACITY)
    (line,) = texts(driver.log_queue, "PST-1019")
    assert "20 held when the broker stopped, or ended the channel or the connection" in line
