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


def test_thresholds_of_a_small_capacity_have_the_reason_for_lower_values() -> None:
    house = House()
    house.queue("a", capacity_messages=20)
    house.queue("b", capacity_messages=20, stop_messages=12)
    found = rows(queue_settings(house.broker, house.vhost.queue("a")))
    assert found["stop-messages"] == (10, ROOM)
    assert found["resume-messages"] == (8, "seven eighths of the stop, which is lower than by default")
    found = rows(queue_settings(house.broker, house.vhost.queue("b")))
    assert found["stop-messages"] == (12, "argument stop-messages=12")
    assert found["resume-messages"] == (12, "the stop")


def test_effective_settings_say_which_limit_an_overflow_is_of() -> None:
    house = House()
    house.queue("a", capacity_messages=20, x_max_length=18)
    house.queue("b", x_max_length=18, x_overflow="reject-publish")
    house.queue("c", capacity_messages=20, x_max_length=18, x_overflow="reject-publish")
    found = rows(queue_settings(house.broker, house.vhost.queue("a")))
    assert found["max-length"] == (18, "argument x-max-length=18; of what is ready; beyond, drop-head")
    assert found["overflow"] == ("block", "default; at the capacity")
    assert found["stop-messages"] == (18, "the length, to which the default gives way")
    found = rows(queue_settings(house.broker, house.vhost.queue("b")))
    assert found["max-length"] == (18, "argument x-max-length=18; of what is ready; beyond, reject")
    assert found["overflow"] == ("block", "argument x-overflow=reject-publish is of the length; at the capacity")
    found = rows(queue_settings(house.broker, house.vhost.queue("c")))
    assert found["overflow"] == ("reject", "argument x-overflow=reject-publish; at the capacity")
    house.queue("d", capacity_messages=20)
    house.set("queue", "d", capacity_messages=1000, overflow="drop-head")
    found = rows(queue_settings(house.broker, house.vhost.queue("d")))
    beside = "the capacity is not beside pattern 'd', set by command: overflow=drop-head"
    assert found["overflow"] == ("block", beside)


def test_effective_settings_of_a_scope_are_own_and_derived_settings() -> None:
    house = House()
    assert {row["origin"] for row in scope_settings(house.broker, "vhost", "/")} == {"default"}
    house.set("vhost", "/", capacity_bytes=1000)
    found = rows(scope_settings(house.broker, "vhost", "/"))
    assert found["capacity-bytes"][0] == 1000
    assert found["stop-bytes"] == (500, "follows from the capacity")
