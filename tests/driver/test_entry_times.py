"""Entries of the event loop that take longer than their units: the client is charged, named and counted."""

from __future__ import annotations

import pytest

from penstock.connections.log_line import LogLine
from penstock.driver.driver import BrokerDriver
from penstock.driver.entry_times import (
    HALVED_S,
    HTTP,
    INPUT,
    JOB,
    KINDS,
    LEAST,
    RECENT_S,
    REST,
    REST_MOST_S,
    SLACK,
    Debt,
    EntryClock,
    LongTurn,
    TurnTimes,
)
from penstock.flow.work import SHARE, TURN, Steps, WorkMeter
from penstock.logs.ids import LONG_ENTRY
from tests.support.driven_connection import Dialogue, make_driver, publish
from tests.support.input_shares import declarations, turn

START = 1000.0
LONG_S = 0.1
UNIT_S = 1e-6


class Machine:
    """A machine by hand: `wall` and `busy` pass with each reading of the wall clock, by what the next entries take."""

    def __init__(self) -> None:
        self.wall = START
        self.used = 5.0
        self.takes: list[tuple[float, float]] = []
        """Wall and processor time of the next entries; the others take none."""

    def now(self) -> float:
        if self.takes:
            wall, used = self.takes.pop(0)
            self.wall += wall
            self.used += used
        return self.wall

    def busy(self) -> float:
        return self.used


def slow_driver() -> tuple[BrokerDriver, Machine]:
    """Return a driver whose clock is a machine by hand."""
    driver, machine = make_driver(), Machine()
    driver.scheduler.entries.clock = EntryClock(machine.now, machine.busy, UNIT_S)
    driver.begin(START)
    driver.scheduler.entries.begin(START)
    return driver, machine


def slow_client() -> tuple[BrokerDriver, Machine, Dialogue]:
    """Return the same, and a client that has had its turn."""
    driver, machine = slow_driver()
    client = Dialogue(driver)
    turn(driver)
    return driver, machine, client


def lines(driver: BrokerDriver) -> list[LogLine]:
    """Return the lines about long entries."""
    return [line for line in driver.log_queue.take() if line.fields.get("id") == LONG_ENTRY]


def test_client_whose_input_takes_longer_than_its_units_is_charged_more() -> None:
    driver, machine, client = slow_client()
    before = client.connection.work_done
    machine.takes = [(LONG_S, LONG_S)]
    driver.receive(client.connection, declarations(1, "q"), machine.wall)
    assert client.connection.work_done - before == pytest.approx(LONG_S / UNIT_S, rel=0.01)
    assert not driver.scheduler.has_room()  # The turn is used up as well.


def test_charged_client_is_named_in_the_log_and_counted_by_kind() -> None:
    driver, machine, client = slow_client()
    driver.log_queue.take()
    machine.takes = [(LONG_S, LONG_S)]
    driver.receive(client.connection, declarations(1, "q"), machine.wall)
    (line,) = lines(driver)
    assert line.fields["connection"] == client.connection.name()
    assert (line.fields["kind"], line.fields["ms"]) == (INPUT, 100.0)
    assert client.connection.name() in line.text
    assert "100 ms" in line.text
    found = {kind: (count, seconds) for kind, count, seconds in driver.scheduler.entries.view()}
    assert tuple(found) == KINDS
    assert found[INPUT] == (1, pytest.approx(LONG_S, rel=0.01))
    assert all(found[kind] == (0, 0.0) for kind in KINDS if kind != INPUT)


def test_input_of_a_charged_client_rests_and_then_goes_on() -> None:
    driver, machine = slow_driver()
    client, other = Dialogue(driver), Dialogue(driver)
    turn(driver)
    queues = driver.broker.vhosts["/"].queues
    machine.takes = [(LONG_S, LONG_S)]
    driver.receive(client.connection, declarations(1, "slow"), machine.wall)
    driver.receive(client.connection, declarations(1, "later"), machine.wall)
    turn(driver)
    driver.serve(machine.wall)
    driver.run_turn()
    assert "later0" not in queues
    assert client.connection.input_paused
    driver.receive(other.connection, declarations(1, "other"), machine.wall)
    assert "other0" in queues
    due = driver.next_deadline()
    assert due == pytest.approx(START + REST * LONG_S, rel=0.01)
    machine.wall = due
    driver.serve(due)
    driver.run_turn()
    driver.end_turn(0.0, due)
    driver.serve(due)
    assert "later0" in queues
    assert client.connection.busy == 0


def test_charged_client_is_served_after_waiting_clients() -> None:
    driver, machine = slow_driver()
    client, other = Dialogue(driver), Dialogue(driver)
    turn(driver)
    driver.scheduler.receive(other.connection, declarations(1000, "hog"))
    machine.takes = [(LONG_S, LONG_S)]
    driver.receive(client.connection, declarations(1, "slow"), machine.wall)
    assert other.connection.in_line
    assert client.connection.finish > other.connection.finish + TURN


@pytest.mark.parametrize("used", [0.0, LEAST * UNIT_S / 2])
def test_time_of_other_processes_is_charged_to_no_client(used: float) -> None:
    driver, machine, client = slow_client()
    machine.takes = [(LONG_S, used)]
    driver.receive(client.connection, declarations(1, "q"), machine.wall)
    assert [line.text for line in lines(driver)] == []
    assert client.connection.busy == 0
    assert client.connection.work_done < LEAST


def test_processor_time_of_earlier_entries_is_not_charged_to_the_next() -> None:
    driver, machine = slow_driver()
    machine.used += 50.0  # Somebody else's, since the last reading.
    client = Dialogue(driver)
    turn(driver)
    machine.wall += 60.0
    machine.takes = [(LONG_S, 0.0)]
    driver.receive(client.connection, declarations(1, "q"), machine.wall)
    assert [line.text for line in lines(driver)] == []


def test_work_of_the_same_turn_before_an_entry_is_not_charged() -> None:
    driver, machine = slow_driver()
    clients = [Dialogue(driver) for _ in range(4)]
    turn(driver)
    for client in clients:
        driver.scheduler.receive(client.connection, declarations(1, "q"))
        driver.scheduler.receive(client.connection, declarations(1, "q"))
    assert all(client.connection.in_line for client in clients)
    driver.scheduler.begin_turn()
    machine.takes = [(0.001, 0.007)] * 3 + [(LONG_S, 0.0)]
    assert len(driver.serve(machine.wall)) == 4
    assert [line.text for line in lines(driver)] == []


def test_entry_may_take_several_times_its_units() -> None:
    driver, machine, client = slow_client()
    before = driver.broker.work.done
    driver.receive(client.connection, declarations(100, "a"), machine.wall)
    seconds = (SLACK * int(driver.broker.work.done - before) + LEAST) * UNIT_S * 0.99
    turn(driver)
    machine.takes = [(seconds, seconds)]
    driver.receive(client.connection, declarations(100, "b"), machine.wall)
    assert [line.text for line in lines(driver)] == []


def test_turn_ends_when_its_clients_have_used_its_time_however_few_the_units() -> None:
    driver, machine = slow_driver()
    clients = [Dialogue(driver) for _ in range(20)]
    turn(driver)
    for client in clients:
        for name in "ab":
            driver.scheduler.receive(client.connection, declarations(1, name))
    served: list[int] = []
    while driver.scheduler.begin_turn():
        machine.takes = [(0.0015, 0.0015)] * len(clients)
        served.append(len(driver.serve(machine.wall)))
    assert TURN * UNIT_S == 0.008
    assert served == [6, 6, 6, 2]
    assert lines(driver) == [], "none took long by itself"


def test_job_has_the_time_of_its_share_however_few_units_it_counts() -> None:
    driver, machine = slow_driver()
    steps: list[int] = []

    def job() -> Steps[None]:
        for number in range(20):
            machine.takes = [(0.001, 0.001)]
            steps.append(number)
            yield

    driver.start(job())
    found: list[int] = []
    while driver.run_turn():
        found.append(len(steps))
    assert SHARE * UNIT_S == 0.0025
    assert found[:3] == [3, 6, 9]
    assert len(steps) == 20


def test_time_before_a_turn_is_not_that_of_its_timers() -> None:
    driver, machine = slow_driver()
    machine.wall += 60.0
    machine.used += 50.0
    driver.begin(machine.wall)
    driver.run_turn()
    assert lines(driver) == []
    assert driver.scheduler.entries.spent_s == 0.0


def test_client_of_a_job_rests_after_the_job() -> None:
    driver, machine, client = slow_client()

    def job() -> Steps[None]:
        yield
        machine.takes = [(LONG_S, LONG_S)]
        yield

    driver.start(job(), client.connection)
    turn(driver)
    (line,) = lines(driver)
    assert (line.fields["kind"], line.fields["connection"]) == (JOB, client.connection.name())
    turn(driver)
    assert client.connection.busy == 1  # Its job is done.


def test_long_turn_without_a_client_is_logged_without_a_name() -> None:
    driver, machine = slow_driver()
    driver.serve(machine.wall)
    machine.takes = [(LONG_S, LONG_S)]
    driver.run_turn()
    (line,) = lines(driver)
    assert line.fields["connection"] is None


def test_request_over_http_is_named_and_its_time_returned() -> None:
    driver, machine = slow_driver()
    entries = driver.scheduler.entries
    entries.begin(machine.wall)
    machine.takes = [(LONG_S, LONG_S)]
    assert entries.end(HTTP, "http guest GET /x") == pytest.approx(LONG_S)
    assert entries.end(HTTP, "http guest GET /x") == 0.0
    (line,) = lines(driver)
    assert line.fields["connection"] == "http guest GET /x"


def test_debt_grows_with_each_entry_up_to_a_bound_and_decays() -> None:
    debt = Debt()
    assert debt.add(0.1, 0.0) == pytest.approx(1.0)
    assert debt.add(0.1, 0.0) == pytest.approx(2.0)
    assert debt.add(0.1, HALVED_S) == pytest.approx(2.0)
    assert debt.add(100.0, HALVED_S) == REST_MOST_S


def test_connection_that_ends_while_it_rests_leaves_no_timer() -> None:
    driver, machine, client = slow_client()
    machine.takes = [(LONG_S, LONG_S)]
    driver.receive(client.connection, publish("", b"x"), machine.wall)
    assert driver.next_deadline() is not None
    driver.disconnect(client.connection)
    assert driver.next_deadline() is None


def test_lines_about_long_entries_are_few() -> None:
    driver, machine = slow_driver()
    entries = driver.scheduler.entries
    for _ in range(100):
        entries.begin(machine.wall)
        machine.takes = [(LONG_S, LONG_S)]
        entries.end(HTTP, "somebody")
    assert len(lines(driver)) == 5
    assert entries.counts[HTTP] == 100


def test_clock_that_does_not_move_charges_no_client(driver: BrokerDriver) -> None:
    driver.begin(START)
    client = Dialogue(driver)
    turn(driver)
    driver.receive(client.connection, declarations(100, "q"), START + 50)
    assert [line.text for line in lines(driver)] == []
    assert client.connection.busy == 0


def ended(times: TurnTimes, meter: WorkMeter, seconds: float, now: float, work: int = 10) -> None:
    """End a turn that took so long."""
    meter.done += work
    times.end_turn(seconds, now)


def test_turn_times_have_the_longest_turn_of_all_and_of_the_last_two_minutes() -> None:
    meter = WorkMeter()
    times = TurnTimes(meter)
    ended(times, meter, 0.5, 100.0, work=900)
    ended(times, meter, 0.1, 101.0)
    assert (times.longest.seconds, times.recent().seconds) == (0.5, 0.5)
    assert times.longest.work == 900
    ended(times, meter, 0.2, 100.0 + RECENT_S)
    assert times.recent().seconds == 0.5, "it was in the period before"
    ended(times, meter, 0.1, 100.0 + 2 * RECENT_S)
    assert (times.longest.seconds, times.recent().seconds) == (0.5, 0.2)


def test_turn_times_name_the_connection_whose_input_cost_most_in_that_turn(driver: BrokerDriver) -> None:
    busy, idle = Dialogue(driver).connection, Dialogue(driver).connection
    meter = WorkMeter()
    times = TurnTimes(meter)
    times.count(busy, 700)
    times.count(idle, 5)
    ended(times, meter, 0.5, 100.0)
    assert (times.longest.connection, times.longest.connection_work) == (busy.name(), 700)
    ended(times, meter, 0.6, 101.0)
    assert times.longest.connection == "", "nobody had input in the later turn"


def test_turn_times_of_a_turn_are_plain_data() -> None:
    assert LongTurn(0.0125, 900, "con:1", 700).view() == {
        "ms": 12.5, "work": 900, "connection": "con:1", "connection_work": 700,
    }  # fmt: skip
