"""Settings of a queue or another scope with their sources."""

from __future__ import annotations

from penstock.management.effective_settings import ROOM, queue_settings, scope_settings
from tests.support.broker_fixture import House


def rows(found: list[dict[str, object]]) -> dict[str, tuple[object, object]]:
    return {str(row["setting"]): (row["value"], row["from"]) for row in found}


def test_effective_settings_of_a_queue_say_where_each_comes_from() -> None:
    house = House()
    house.queue("a", capacity_messages=100, x_single_active_consumer=True)
    house.set("queue", "#", hold_deadline=7)
    found = rows(queue_settings(house.broker, house.vhost.queue("a")))
    assert found["capacity-messages"] == (100, "argument capacity-messages=100")
    assert found["stop-messages"] == (80, "80 % of the capacity, by default")
    assert found["hold-deadline"] == (7, "pattern '#', set by command: hold-deadline=7")
    assert found["message-ttl"] == (None, "default")
    assert found["overflow"] == ("block", "default")
    assert found["single-active-consumer"] == (True, "argument x-single-active-consumer=true")


def test_thresholds_of_a_small_capacity_say_why_they_are_lower_than_by_default() -> None:
    house = House()
    house.queue("a", capacity_messages=20)
    house.queue("b", capacity_messages=20, stop_messages=12)
    found = rows(queue_settings(house.broker, house.vhost.queue("a")))
    assert found["stop-messages"] == (10, ROOM)
    assert found["resume-messages"] == (8, "seven eighths of the stop, which is lower than by default")
    found = rows(queue_settings(house.broker, house.vhost.queue("b")))
    assert found["stop-messages"] == (12, "argument stop-messages=12")
    assert found["resume-messages"] == (12, "the stop")


def test_effective_settings_of_a_scope_are_those_that_were_given_and_what_follows_from_them() -> None:
    house = House()
    assert {row["origin"] for row in scope_settings(house.broker, "vhost", "/")} == {"default"}
    house.set("vhost", "/", capacity_bytes=1000)
    found = rows(scope_settings(house.broker, "vhost", "/"))
    assert found["capacity-bytes"][0] == 1000
    assert found["stop-bytes"] == (500, "follows from the capacity")
