"""Reasons of refusals in basic.return, the log, connection.blocked and `penstock why`."""

from __future__ import annotations

import pytest

from penstock.driver.driver import BrokerDriver
from penstock.management.refusals import KEPT, TOLD
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.blocked_scene import asked
from tests.support.driven_connection import GATED, Dialogue, make_driver, mandatory, methods, publish, stopped_publisher

REASON = "refused after its hold deadline of 5 s; queue 'q' holds 1 message"


def lines(driver: BrokerDriver, number: str) -> list[str]:
    driver.tick()
    return [note.text for note in driver.log_queue.take() if number in note.text]


def test_publish_refused_by_an_overflow_policy_is_only_nacked_as_in_rabbitmq() -> None:
    driver = make_driver()
    driver.begin(100.0)
    peer = Dialogue(driver)
    peer.declare("q", capacity_messages=1, overflow="reject")
    peer.confirm()
    peer.say(publish("q", b"first"))
    assert [method.name for method in methods(peer.say(mandatory(b"second")))] == ["basic.nack"]
    assert "its overflow policy reject" in asked(driver, connection="1")["sentences"][-1]


def test_why_lists_the_last_refusals_of_a_connection_with_their_reasons() -> None:
    driver = make_driver()
    peer = stopped_publisher(driver)
    peer.say(publish("q", b"2") * 3)
    peer.listen(110.0)
    driver.begin(114.2)
    answer = asked(driver, connection="1")
    name = peer.connection.name()
    said = [line for line in answer["sentences"] if "refused (" in line]
    assert said == [
        f"{name}/ch:1: 3 publishes were refused (729 bytes), the last 4.2 s ago: publish to exchange '' with routing "
        "key 'q' refused after its hold deadline of 5 s; queue 'q' holds 1 message, 247 bytes (closed above 0 "
        "messages, opens at 0 messages, capacity 10 messages)"
    ]
    (refusal,) = answer["refusals"]
    assert (refusal["cause"], refusal["count"], refusal["queue"]) == ("deadline", 3, "q")
    assert asked(driver, channel="1/1")["refusals"] == [refusal]
    assert asked(driver, connection="2" if 2 in driver.connections else "1")["refusals"] == [refusal]


@pytest.mark.parametrize("called", ["1", "con:1", "40312", "127.0.0.1:40312", "web-1"])
def test_connection_is_found_by_number_name_port_address_or_client_name(called: str) -> None:
    driver = make_driver()
    peer = stopped_publisher(driver)
    peer.connection.peer.address = "127.0.0.1:40312"
    peer.connection.peer.properties["connection_name"] = "web-1"
    assert asked(driver, connection=called)["name"] == peer.connection.name()


def test_last_refusals_of_a_connection_are_bounded_and_the_latest_are_kept() -> None:
    driver = make_driver()
    driver.begin(100.0)
    peer = Dialogue(driver)
    peer.confirm()
    for number in range(KEPT + 5):
        peer.declare(f"q{number}", capacity_messages=0, overflow="reject")
        peer.say(publish(f"q{number}", b"x"))
    peer.say(publish("q7", b"again"))
    kept = driver.refused.of(peer.connection.number)
    assert [(each.fields["queue"], each.count) for each in kept[:3]] == [("q7", 2), ("q14", 1), ("q13", 1)]
    assert len(kept) == KEPT
    driver.disconnect(peer.connection)
    assert driver.refused.of(peer.connection.number) == []


def test_refused_publishes_of_a_closed_connection_are_not_stored() -> None:
    driver = make_driver()
    driver.begin(100.0)
    peer = Dialogue(driver)
    peer.declare("q", **{**GATED, "capacity_messages": 1})
    peer.say(publish("q", b"1") + publish("q", b"2"))
    peer.say(method_frame(1, spec.CHANNEL_CLOSE))
    driver.disconnect(peer.connection)
    driver.begin(106.0)
    driver.run_turn()
    assert len(lines(driver, "PST-1015")) == 1
    assert driver.refused.of(1) == []


def test_refused_publishes_are_logged_once_a_second_for_each_channel_and_gate() -> None:
    driver = make_driver()
    peer = stopped_publisher(driver)
    peer.say(publish("q", b"2") * 3)
    peer.listen(110.0)
    (line,) = lines(driver, "PST-1015")
    assert line.startswith(f"[{peer.connection.name()}/ch:1] PST-1015 : Publishes Refused : 3 messages, 729 bytes : ")
    assert REASON in line
    assert lines(driver, "PST-1015") == []


def test_flood_of_refusals_is_a_bounded_number_of_lines_and_a_count() -> None:
    driver = make_driver()
    driver.begin(100.0)
    peer = Dialogue(driver)
    peer.confirm()
    for number in range(TOLD + 20):
        peer.declare(f"q{number}", capacity_messages=0, overflow="reject")
        peer.say(publish(f"q{number}", b"x") * 2)
    told = lines(driver, "efused")
    assert len(told) == TOLD + 1
    assert told[-1] == "40 more publishes were refused in this second"
