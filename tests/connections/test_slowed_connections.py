"""Connections whose input waits for its share of a turn most of the time."""

from __future__ import annotations

import json

from penstock.connections.control_request import ControlRequest
from penstock.driver.driver import BrokerDriver
from penstock.flow.work import finish
from penstock.management.blocked_overview import of_everything_steps
from penstock.management.flow_log_records import Recorder
from penstock.management.why import answer
from tests.support.driven_connection import Dialogue, make_driver
from tests.support.input_shares import declarations, turn


def test_connection_with_waiting_input_is_logged_as_slowed_by_work() -> None:
    driver = make_driver()
    driver.recorder = Recorder(driver.broker)
    hog, quiet = Dialogue(driver), Dialogue(driver)
    driver.begin(1.0)
    driver.tick()
    driver.log_queue.take()
    driver.scheduler.receive(hog.connection, declarations(3000, "q"))
    driver.scheduler.receive(quiet.connection, declarations(1, "other"))
    driver.begin(2.0)
    driver.tick()
    told = [note for note in driver.log_queue.take() if note.fields.get("kind") == "work"]
    assert [note.fields["gate"] for note in told] == [hog.connection.name()]
    assert "PST-1016 : Slowed By Its Own Work" in told[0].text
    said = why(driver, quiet, connection=str(hog.connection.number))
    assert said[0].startswith(f"{hog.connection.name()} is slowed 1.0 s by its own work")
    assert not any("own work" in line for line in why(driver, hog, connection=str(quiet.connection.number)))
    (everything,) = why(driver, quiet)
    assert everything == said[0]
    while hog.connection.input_paused:
        turn(driver)
    for now in (3.0, 4.0):
        driver.begin(now)
        driver.tick()
    assert [note.fields["id"] for note in driver.log_queue.take() if note.fields.get("kind") == "work"] == ["PST-1017"]
    events = [(record["event"], record["id"]) for record in driver.take_records() if record.get("kind") == "work"]
    assert events == [("blocked", "PST-1016"), ("unblocked", "PST-1017")]


def why(driver: BrokerDriver, asker: Dialogue, **subject: str) -> list[str]:
    vhost = driver.broker.vhosts["/"]
    request = ControlRequest(vhost, asker.connection, None, None, json.dumps(subject).encode())
    answered = answer(request, driver) if subject else finish(of_everything_steps(driver, vhost.name))
    sentences = answered["sentences"]
    assert isinstance(sentences, list)
    return sentences


def test_connection_that_has_closed_is_not_slowed_any_more(driver: BrokerDriver) -> None:
    hog = Dialogue(driver)
    driver.begin(1.0)
    driver.tick()
    driver.scheduler.receive(hog.connection, declarations(3000, "q"))
    driver.begin(2.0)
    driver.tick()
    assert driver.scheduler.slowed.slowed()
    driver.disconnect(hog.connection)
    assert not driver.scheduler.slowed.slowed()
    assert not turn(driver), "what a connection left unread is not acted on when its socket is gone"
