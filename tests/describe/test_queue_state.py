"""The state of a queue in lists: its group, its words, who holds it, and the forecast of its gate."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.queue.queue import Queue
from penstock.describe.queue_state import QUIET, UNTAKEN_S, group_of, has_dead_letters, state_row, steady
from penstock.describe.table import reading
from penstock.driver.driver import BrokerDriver
from penstock.flow.series import MINUTE, SLOT_S
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.access_of import access_of
from tests.support.blocked_scene import GATED
from tests.support.broker_fixture import House
from tests.support.driven_connection import Dialogue, publish, sampled
from tests.support.operation_calls import ask
from tests.support.stream_house import StreamHouse


def queue_of(driver: BrokerDriver, name: str = "orders") -> Queue:
    return driver.broker.vhosts["/"].queues[name]


def state(driver: BrokerDriver, name: str = "orders") -> Any:
    return state_row(queue_of(driver, name), reading(driver))


def words(driver: BrokerDriver, name: str = "orders") -> tuple[str, str, str]:
    row = state(driver, name)
    return row["group"], row["text"], row["tone"]


def filled(driver: BrokerDriver, count: int, **arguments: object) -> Dialogue:
    peer = Dialogue(driver).declare("orders", **arguments)
    peer.confirm()
    for _ in range(count):
        peer.say(publish("orders", b"x"))
    return peer


def consume(driver: BrokerDriver, prefetch: int) -> Dialogue:
    peer = Dialogue(driver)
    peer.say(method_frame(1, spec.BASIC_QOS, prefetch_count=prefetch))
    peer.say(method_frame(1, spec.BASIC_CONSUME, queue="orders"))
    while driver.run_turn():
        pass
    return peer


def test_empty_queue_is_quiet_and_open(driver: BrokerDriver) -> None:
    filled(driver, 0)
    assert state(driver) == {
        "group": "quiet", "rank": 3, "text": "open", "tone": "", "held": None, "closes_in_s": None,
        "dead_letters": False,
    }  # fmt: skip


def test_closed_queue_is_blocked_and_names_the_time_and_the_waiting_producers(driver: BrokerDriver) -> None:
    driver.begin(100.0)
    filled(driver, 5, **GATED)
    driver.begin(118.2)
    assert words(driver) == ("blocked", "closed 18 s · 1 waiting", "stop")
    held = state(driver)["held"]
    assert (held["by"], held["scope"], held["for_s"]) == ("own", None, 18.2)
    assert held["reason"] == "queue orders: 5 messages > stop 3 (opens at 1), closed for 18.2 s"


@pytest.mark.parametrize(
    ("scope", "vhost", "name", "by"),
    [
        ("queue", "/", "orders", "operator"),
        ("vhost", "/", "/", "operator"),
        ("address", "/", "", "exchange"),
    ],
)
def test_queue_held_by_the_operator_has_reason_scope_and_time(
    driver: BrokerDriver, scope: str, vhost: str, name: str, by: str
) -> None:
    filled(driver, 0)
    driver.begin(10.0)
    driver.broker.gates.block(scope, vhost, name, "upgrade")
    driver.begin(14.0)
    assert words(driver) == ("blocked", "held by the operator 4.0 s", "stop")
    wall = driver.broker.wall_offset
    assert state(driver)["held"] == {
        "by": by, "scope": scope, "name": name, "vhost": vhost, "reason": "upgrade",
        "since": round((10.0 + wall) * 1000), "for_s": 4.0,
    }  # fmt: skip


def test_full_virtual_host_holds_its_queues_by_its_name(driver: BrokerDriver) -> None:
    filled(driver, 2)
    driver.begin(1.0)
    house = House()
    house.broker = driver.broker
    house.set("vhost", "/", capacity_messages=2, stop_messages=1, resume_messages=1)
    driver.begin(4.0)
    assert state(driver)["text"].startswith("held by its virtual host 3.0 s")
    assert state(driver)["held"]["name"] == "/"


def test_messages_without_a_consumer_are_unread_until_somebody_gets_them(driver: BrokerDriver) -> None:
    peer = filled(driver, 3)
    sampled(driver, 1)
    assert words(driver) == ("unread", "no consumer", "warn")
    peer.say(method_frame(1, spec.BASIC_GET, queue="orders", no_ack=True))
    sampled(driver, 2)
    assert words(driver)[0] == "moving", "a client polls it"
    sampled(driver, 3)
    assert words(driver)[0] == "unread"


def test_messages_that_consumers_leave_for_a_minute_are_unread(driver: BrokerDriver) -> None:
    driver.begin(0.0)
    filled(driver, 3)
    consume(driver, 1)
    sampled(driver, 1)
    sampled(driver, 2)
    assert words(driver) == ("quiet", "open", "")
    driver.begin(UNTAKEN_S + 1)
    assert words(driver) == ("unread", "consumers take nothing", "warn")


def test_unacknowledged_messages_alone_are_not_unread(driver: BrokerDriver) -> None:
    filled(driver, 1)
    consume(driver, 1)
    driver.begin(2 * UNTAKEN_S)
    assert words(driver)[0] == "quiet"


def test_queue_with_a_cursor_is_not_unread(driver: BrokerDriver) -> None:
    filled(driver, 2)
    fields = {"cursor": "reporting", "queues": ["orders"]}
    ask(driver, "cursor.attach", fields, Dialogue(driver).connection, access=access_of(driver.broker))
    assert words(driver)[0] == "quiet"


def test_stream_without_consumers_is_not_unread() -> None:
    house = StreamHouse()
    house.append(1, 3)
    assert group_of(house.stream, house.broker) == QUIET


def test_rates_of_the_last_pass_make_a_queue_moving(driver: BrokerDriver) -> None:
    peer = filled(driver, 0)
    consume(driver, 0)
    peer.say(publish("orders", b"x"))
    assert words(driver)[0] == "quiet", "no pass has seen it"
    sampled(driver, 1)
    assert words(driver) == ("moving", "open", "")


def test_drops_are_a_rate_in_the_words(driver: BrokerDriver) -> None:
    peer = filled(driver, 0, x_max_length=2, x_overflow="drop-head")
    consume(driver, 1)
    sampled(driver, 1)
    for _ in range(38):
        peer.say(publish("orders", b"x"))
    sampled(driver, 2)
    assert words(driver) == ("moving", "drops 7.0 /s", "warn")


def rising(driver: BrokerDriver, each: list[int], **arguments: object) -> None:
    """Fill a queue, of which one message in each slot is taken, by so many messages in each."""
    peer = filled(driver, 0, **arguments)
    for slot, count in enumerate(each, 1):
        for _ in range(count + 1):
            peer.say(publish("orders", b"x"))
        peer.say(method_frame(1, spec.BASIC_GET, queue="orders", no_ack=True))
        sampled(driver, slot)


def test_steady_rate_forecasts_the_closing_of_the_gate(driver: BrokerDriver) -> None:
    rising(driver, [10] * (MINUTE + 2), capacity_messages=400, stop_messages=300, resume_messages=200)
    assert state(driver)["closes_in_s"] == (300 - 10 * (MINUTE + 2)) / 2.0
    assert words(driver) == ("moving", "closes in 1 min", "")


def test_forecast_takes_the_limit_that_is_met_first(driver: BrokerDriver) -> None:
    rising(driver, [10] * (MINUTE + 2), capacity_messages=4000, stop_bytes=243 * 150, capacity_bytes=1 << 20)
    assert state(driver)["closes_in_s"] == pytest.approx((150 - 10 * (MINUTE + 2)) / 2.0, abs=0.1)


def test_unsteady_rate_and_one_younger_than_a_minute_have_no_forecast(driver: BrokerDriver) -> None:
    limits = {"capacity_messages": 400, "stop_messages": 300, "resume_messages": 200}
    rising(driver, [10] * (MINUTE - 1), **limits)
    assert state(driver)["closes_in_s"] is None
    peer = Dialogue(driver)
    for slot in range(MINUTE, 3 * MINUTE):
        for _ in range(12 if slot % 3 == 0 else 1):
            peer.say(publish("orders", b"x"))
        sampled(driver, slot)
    assert state(driver)["closes_in_s"] is None


def test_far_forecast_is_a_number_and_no_words(driver: BrokerDriver) -> None:
    rising(driver, [5] * (MINUTE + 2), capacity_messages=40_000, stop_messages=30_000, resume_messages=200)
    assert state(driver)["closes_in_s"] > 600
    assert words(driver) == ("moving", "open", "")


@pytest.mark.parametrize(
    ("values", "rate"),
    [
        ([0, 10, 20, 30], 10 / SLOT_S),
        ([0, 10, 20, 20], None),
        ([30, 20, 10, 0], None),
        ([5, 5, 5, 5], None),
        ([0, 9, 20, 30], 10 / SLOT_S),
    ],
)
def test_rate_is_steady_if_it_deviates_by_less_than_a_third(values: list[int], rate: float | None) -> None:
    assert steady(values) == rate


def test_dead_letters_end_in_a_queue_without_a_dead_letter_exchange(driver: BrokerDriver) -> None:
    peer = filled(driver, 0, x_dead_letter_exchange="", x_dead_letter_routing_key="orders.dead", x_max_length=1)
    peer.declare("orders.dead")
    assert not has_dead_letters(queue_of(driver, "orders.dead"))
    for _ in range(3):
        peer.say(publish("orders", b"x"))
    while driver.run_turn():
        pass
    assert has_dead_letters(queue_of(driver, "orders.dead"))
    assert state(driver, "orders.dead")["dead_letters"]
    assert not has_dead_letters(queue_of(driver))
