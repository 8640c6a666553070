"""Metrics of queues, rows of cursors, and the first queues of a list in an order.

Cursors have lag, reader, and the producers that wait. The first queues are found a share of work a slice.
"""

from __future__ import annotations

import json
from random import Random

import pytest

from penstock.content.properties import Properties
from penstock.core.consume.consumer import Consumer
from penstock.core.consume.outcome import Outcome
from penstock.core.consume.session import Session
from penstock.core.message import Envelope
from penstock.core.publish.credit_window import CreditWindow
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.producer import Producer
from penstock.core.queue.delays import delays_of
from penstock.core.queue.queue import Queue
from penstock.describe.conditions import key_of
from penstock.describe.gate import because, gate_row
from penstock.describe.list_kinds import Item
from penstock.describe.lists import EXAMINED_AT_ONCE, QueueOrder, first_steps
from penstock.describe.metrics import Selection
from penstock.describe.queue import (
    CURSORS,
    QUEUE,
    QUEUES_SHOWN,
    blocked_rows,
    cursor_row,
    fill_percent,
    limit_percent,
    queue_row,
)
from penstock.describe.session import consumer_row, obstacles, producer_row
from penstock.describe.table import Reading, field_at, reading
from penstock.driver.driver import BrokerDriver
from penstock.flow.work import LOOKING_SHARE, finish
from penstock.operations.vhosts import declare_vhost
from penstock.protocols.amqp091.content_frames import make_content
from tests.ranges.test_refused_attach import Desk
from tests.support.blocked_producers import BlockedProducers
from tests.support.blocked_scene import GATED
from tests.support.broker_fixture import MIB, House
from tests.support.driven_connection import Dialogue, make_driver, publish, sampled
from tests.support.metrics import Samples, samples_of, scraped
from tests.support.sender_links import CHARGE, OCTETS, Link, run_until_quiet
from tests.support.turn_costs import turn_costs


def of_queue(samples: Samples, name: str, queue: str = "orders") -> float | None:
    return samples.get((name, f"queue={queue}", "vhost=/"))


def test_blocked_queue_shows_gate_producers_and_depth() -> None:
    rig = BlockedProducers()
    for _ in range(4):
        rig.do("publish", 0, "orders")
    rig.do("publish", 1, "orders")
    rig.do("publish", 2, "orders")
    rig.do("wait", 1, "")
    found = samples_of(scraped(rig.driver, Selection(100)))
    assert of_queue(found, "penstock_queue_gate_open") == 0
    assert of_queue(found, "penstock_queue_gate_open", "audit") == 1
    assert of_queue(found, "penstock_queue_depth_messages") == 5
    assert of_queue(found, "penstock_queue_capacity_messages") == 5
    assert of_queue(found, "penstock_queue_stop_messages") == 3
    assert of_queue(found, "penstock_queue_resume_messages") == 1
    assert of_queue(found, "penstock_queue_fill_ratio") == 1.0
    assert of_queue(found, "penstock_queue_gate_crossings_total") == 1
    assert of_queue(found, "penstock_queue_gate_closed_seconds_total") == 10
    assert of_queue(found, "penstock_queue_blocked_producers") == 3
    assert of_queue(found, "penstock_queue_producers_blocked_seconds_total") == 30
    assert of_queue(found, "penstock_queue_waiting_producers") == 1
    assert of_queue(found, "penstock_queue_publishes_held_total") == 1
    assert of_queue(found, "penstock_queue_confirms_withheld_total") == 2
    assert of_queue(found, "rabbitmq_queue_messages_ready") == 5
    assert of_queue(found, "rabbitmq_queue_messages_published_total") == 5


def test_queue_without_a_capacity_has_no_fill_and_infinite_limits() -> None:
    rig = BlockedProducers()
    rig.user.declare("wide")
    rig.driver.broker.vhosts["/"].queues["wide"].thresholds.capacity.messages = 1 << 62
    found = samples_of(scraped(rig.driver, Selection(100)))
    assert of_queue(found, "penstock_queue_capacity_messages", "wide") == float("inf")


def test_metric_families_have_help_and_counters_end_with_total() -> None:
    names = [family.name for family in QUEUE.families]
    assert len(set(names)) == len(names)
    for family in QUEUE.families:
        assert family.help
        assert (family.kind == "counter") is family.name.endswith("_total"), family.name


NUMBERS = (
    *(
        "messages",
        "messages_ready",
        "messages_unacknowledged",
        "consumers",
        "penstock.fill_percent",
        "penstock.limit_percent",
    ),
    "penstock.oldest_s",
    *("penstock.gate.blocked", "message_stats.publish_details.rate", "message_stats.deliver_get_details.rate"),
)


@pytest.mark.parametrize("path", NUMBERS)
def test_number_of_a_queue_is_that_of_its_row(path: str) -> None:
    client = Dialogue(make_driver())
    client.confirm()
    for name, count in (("none", 0), ("few", 2), ("many", 7)):
        client.declare(name, **GATED)
        client.say(publish(name, b"x") * count)
    client.declare("unbounded", capacity_messages="none", capacity_bytes="none")
    client.consume("few")
    sampled(client.driver, 1)
    client.say(publish("few", b"x") + publish("none", b"x"))
    sampled(client.driver, 2)
    number = QUEUE.number(path)
    assert number is not None
    for queue in client.driver.broker.vhosts["/"].queues.values():
        at = reading(client.driver)
        value = field_at(QUEUE.row(queue, at), path)
        assert field_at(QUEUE.row(queue, at, QUEUE.select([path])), path) == value
        found = key_of(number.value(queue, at))
        if value is None:
            assert found in ((0, ""), (1, 0.0))
        else:
            assert found == (1, pytest.approx(value, abs=0.001))


def test_view_of_a_queue_has_its_depth_its_thresholds_and_its_gate() -> None:
    house = House("a", capacity_messages=10, stop_messages=3, resume_messages=1)
    house.publish_now("a", 100, count=4)
    house.session.get(house.vhost.queue("a"), False, 100.0)
    house.broker.now = 101.0
    view = queue_row(house.vhost.queue("a"), house.broker)
    assert view["depth"] == {"messages": 4, "bytes": 400}
    assert view["unacknowledged"] == {"messages": 1, "bytes": 100}
    assert (view["overflow"], view["fill_percent"], view["paged"], view["max_length"]) == ("block", 40.0, None, None)
    gate = view["gate"]
    assert (gate["kind"], gate["name"], gate["open"]) == ("queue", "a", False)


def test_view_of_a_fill_is_the_higher_of_messages_and_bytes() -> None:
    house = House("a", capacity_messages=10, capacity_bytes=1000)
    house.publish_now("a", 250)
    assert fill_percent(house.vhost.queue("a")) == 25.0
    house.queue("free", capacity_bytes="none")
    assert fill_percent(house.vhost.queue("free")) is None


def test_nearest_limit_is_the_maximum_length_if_it_is_reached_before_the_capacity() -> None:
    house = House("a", capacity_messages=10, x_max_length=4)
    queue = house.vhost.queue("a")
    house.publish_now("a", 100, count=3)
    assert (fill_percent(queue), limit_percent(queue)) == (30.0, 75.0)
    house.queue("free", capacity_bytes="none")
    assert limit_percent(house.vhost.queue("free")) is None
    house.queue("short", capacity_bytes="none", x_max_length_bytes=1000, x_max_length=0)
    assert limit_percent(house.vhost.queue("short")) == 100.0


def test_view_of_a_queue_has_the_age_of_its_oldest_ready_message() -> None:
    house = House("a")
    queue = house.vhost.queue("a")
    assert queue_row(queue, house.broker)["oldest_s"] is None
    house.publish_now("a", 100)
    house.broker.now = 160.5
    house.publish_now("a", 100)
    assert queue_row(queue, house.broker)["oldest_s"] == 60.5
    house.session.get(queue, False, 161.0)
    house.broker.now = 161.0
    assert queue_row(queue, house.broker)["oldest_s"] == 0.5, "a delivered message is not ready"
    house.session.unsettled.settle(1, 1, Outcome.RELEASED, 161.0)
    assert queue_row(queue, house.broker)["oldest_s"] == 61.0


def test_age_of_the_oldest_message_is_a_metric_and_zero_for_an_empty_queue() -> None:
    client = Dialogue(make_driver())
    client.declare("orders")
    client.declare("none")
    client.say(publish("orders", b"x"))
    client.driver.begin(client.driver.broker.now + 61.0)
    found = samples_of(scraped(client.driver, Selection(100)))
    assert of_queue(found, "penstock_queue_oldest_message_age_seconds") == pytest.approx(61.0)
    assert of_queue(found, "penstock_queue_oldest_message_age_seconds", "none") == 0


@pytest.mark.parametrize("timestamp", [1_700_000_000, None])
def test_head_message_timestamp_is_the_property_of_the_next_message(timestamp: int | None) -> None:
    client = Dialogue(make_driver())
    client.declare("orders")
    queue = client.driver.broker.vhosts["/"].queues["orders"]
    assert QUEUE.row(queue, reading(client.driver))["head_message_timestamp"] is None
    client.say(publish("orders", b"x", properties=Properties(timestamp=timestamp, message_id="m")))
    assert QUEUE.row(queue, reading(client.driver))["head_message_timestamp"] == timestamp


def test_view_of_a_gate_names_the_producers_that_it_blocks() -> None:
    house = House("a", capacity_messages=2)
    house.published("p", "a", 100, count=4)
    assert "p" in str(gate_row(house.vhost.queue("a").gate, 101.0))


def test_view_of_a_consumer_says_why_it_gets_nothing() -> None:
    from penstock.core.consume.consumer import Consumer

    house = House("a")
    consumer = Consumer("t", house.session, house.vhost.queue("a"), False, False, 1)
    house.broker.consume(house.session, consumer)
    house.publish_now("a", 100, count=2)
    house.broker.schedule_delivery(house.vhost.queue("a"))
    assert house.broker.next_batch() is not None
    assert "unacknowledged" in str(consumer_row(consumer, 101.0))


def test_view_of_a_link_has_its_credit_and_the_fate_of_the_credit() -> None:
    house = House("a", capacity_messages=100)
    link = Link(house, "a", window=CreditWindow(1000, MIB, OCTETS))
    run_until_quiet(house)
    link.send(5)
    link.credit.give_back(2)
    credit = producer_row(link.producer, 101.0)["credit"]
    assert (credit["granted"], credit["used"], credit["drained"], credit["credit"]) == (32, 5, 2, 25)
    assert credit["reserved"] == {"messages": 25, "bytes": 25 * CHARGE}
    assert credit["window"] == {"messages": 1000, "bytes": MIB}
    assert "credit" not in producer_row(house.producer("p"), 101.0)


def test_reason_of_a_link_without_credit_is_the_missing_room_or_its_turn() -> None:
    house = House("a", capacity_messages=4, stop_messages=4, resume_messages=4)
    house.publish_now("a", 100, count=4)
    links = [Link(house, "a") for _ in range(3)]
    run_until_quiet(house)
    gate = house.vhost.queues["a"].gate
    assert "no room for the next message; it waits for credit" in because(links[0].producer, gate, 101.0)
    assert "it waits for credit, 2 before it" in because(links[2].producer, gate, 101.0)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_view_has_lag_reader_and_counters(desk: Desk) -> None:
    token = desk.ask("cursor.attach", {"cursor": "c", "queues": ["a", "b"]})["token"]
    desk.ask("cursor.plan", {"cursor": "c", "token": token, "start": {}, "rows": 6})
    block = {"cursor": "c", "token": token, "queue": "a", "lo": 0, "hi": 3, "query": "q-1"}
    content = make_content(Properties(reply_to="answers"), json.dumps(block).encode())
    desk.driver.control.request(desk.vhost, desk.connection, "cursor.range", content)
    desk.ask("cursor.settle", {"cursor": "c", "token": token, "end": {"a": 3}})
    view = cursor_row(desk.vhost.cursors["c"], desk.driver)
    assert view["lag"] == {"messages": 17, "bytes": 170, "oldest_s": 0.0}
    assert view["reader"] == {"connection": desk.connection.name(), "open": True, "query": "q-1"}
    assert view["read"] == {"plans": 1, "blocks": 1, "messages": 3}
    first = view["queues"][0]
    assert (first["queue"], first["settled"], first["planned"], first["tail"]) == ("a", 3, 3, 10)
    assert first["lag"] == {"messages": 7, "bytes": 70, "oldest_s": 0.0}
    assert (first["holds_back"], first["gate_open"], first["blocked"]) == (True, True, 0)
    desk.driver.connections.clear()
    reader = cursor_row(desk.vhost.cursors["c"], desk.driver)["reader"]
    assert reader == {"connection": desk.connection.name(), "open": False, "query": "q-1"}


def test_cursor_of_very_many_queues_shows_the_first_and_counts_all(desk: Desk) -> None:
    names = [f"many-{number}" for number in range(QUEUES_SHOWN + 5)]
    for name in names:
        desk.vhost.declare_queue(name, {}, False, False, None, None).enqueue(Envelope("", name), b"", 10, 0.0)
    desk.ask("cursor.attach", {"cursor": "c", "queues": names})
    view = cursor_row(desk.vhost.cursors["c"], desk.driver)
    assert len(view["queues"]) == QUEUES_SHOWN
    assert (view["more_queues"], view["lag"]["messages"]) == (5, QUEUES_SHOWN + 5)


def test_cursor_without_blocked_producers_has_no_blocked_rows(desk: Desk) -> None:
    desk.ask("cursor.attach", {"cursor": "c", "queues": ["a"]})
    assert blocked_rows(desk.vhost.cursors["c"], desk.driver.broker.now) == []


@pytest.mark.parametrize(
    ("messages", "beyond"),
    [(9, True), (10, False)],
)
def test_limit_of_lag_is_shown_with_its_state(messages: int, beyond: bool, desk: Desk) -> None:
    settings = {"cursor-max-lag-messages": messages, "cursor-max-lag-policy": "tell"}
    queue = desk.vhost.declare_queue("limited", settings, False, False, None, None)
    for _ in range(10):
        queue.enqueue(Envelope("", "limited"), b"", 10, 0.0)
    desk.ask("cursor.attach", {"cursor": "c", "queues": ["a", "limited"]})
    first, second = cursor_row(desk.vhost.cursors["c"], desk.driver)["queues"]
    assert first["max_lag"] is None
    assert second["max_lag"] == {
        "messages": messages, "bytes": None, "age_s": None, "policy": "tell", "beyond": beyond,
    }  # fmt: skip


def test_lag_of_a_cursor_is_reported_by_queue(desk: Desk) -> None:
    token = desk.ask("cursor.attach", {"cursor": "c", "queues": ["a", "b"]})["token"]
    desk.ask("cursor.plan", {"cursor": "c", "token": token, "start": {}, "rows": 6})
    desk.ask("cursor.settle", {"cursor": "c", "token": token, "end": {"a": 3}})
    found = samples_of(scraped(desk.driver, Selection(100, frozenset([CURSORS]))))
    of_a = ("cursor=c", "queue=a", "vhost=/")
    assert found[("penstock_cursor_lag_messages", *of_a)] == 7
    assert found[("penstock_cursor_lag_bytes", *of_a)] == 70
    assert found[("penstock_cursor_lag_seconds", *of_a)] == 0
    assert found[("penstock_cursor_unsettled_messages", *of_a)] == 7
    assert found[("penstock_cursor_holds_back", *of_a)] == 1
    assert found[("penstock_cursor_lag_messages", "cursor=c", "queue=b", "vhost=/")] == 10


def test_cursors_beyond_the_limit_are_counted(desk: Desk) -> None:
    desk.ask("cursor.attach", {"cursor": "c", "queues": ["a", "b"]})
    found = samples_of(scraped(desk.driver, Selection(1, frozenset([CURSORS]))))
    assert found[("penstock_metrics_objects_omitted", "kind=cursor")] == 1


MANY = 1_200


@pytest.fixture
def driver() -> BrokerDriver:
    """Queues of two virtual hosts with names in no order, and some with messages."""
    driver = make_driver()
    declare_vhost(driver, "other")
    client = Dialogue(driver)
    random = Random(7)
    for number in range(MANY):
        vhost = driver.broker.vhosts["/" if number % 3 else "other"]
        vhost.declare_queue(f"Q{random.randrange(10**6)}", {}, False, False, None, None)
    for name in random.sample(list(driver.broker.vhosts["/"].queues), 60):
        for _ in range(random.randrange(1, 4)):
            client.say(publish(name, b"x"))
    return driver


def number_of(queue: Queue, column: str) -> float:
    number = QUEUE.number(column)
    found = number.value(queue, Reading(0.0))
    assert isinstance(found, int | float)
    return found


def first(driver: BrokerDriver, order: QueueOrder) -> list[Item]:
    return finish(first_steps(driver, [*driver.broker.vhosts.values()], order))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("count", [1, 40, 500, 2_000])
@pytest.mark.parametrize("column", ["name", "messages", "penstock.fill_percent"])
def test_first_queues_are_those_of_the_list_in_order(
    driver: BrokerDriver, column: str, count: int, reverse: bool
) -> None:
    whole = [queue for vhost in driver.broker.vhosts.values() for queue in vhost.queues.values()]
    whole.sort(key=lambda queue: queue.name, reverse=reverse and column == "name")
    if column != "name":
        whole.sort(key=lambda queue: number_of(queue, column), reverse=reverse)
    order = QueueOrder(QUEUE.number(column), reverse, count)
    found = first(driver, order)
    assert [item.subject for item in found] == whole[:count]
    assert all(item.vhost is driver.broker.vhosts[item.vhost.name] for item in found if item.vhost is not None)
    assert (order.total, order.filtered) == (MANY, MANY)


def test_queues_of_the_same_name_are_in_the_order_of_creation_in_either_direction() -> None:
    driver = make_driver()
    declare_vhost(driver, "other")
    for vhost in driver.broker.vhosts.values():
        vhost.declare_queue("same", {}, False, False, None, None)
    for reverse in (False, True):
        items = first(driver, QueueOrder(None, reverse, 10))
        assert [item.vhost.name for item in items if item.vhost is not None] == ["/", "other"]


def test_queues_with_the_wanted_text_are_listed_and_counted(driver: BrokerDriver) -> None:
    names = [name for vhost in driver.broker.vhosts.values() for name in vhost.queues if "q12" in name.lower()]
    order = QueueOrder(None, False, 5, "q12")
    assert [item.name for item in first(driver, order)] == sorted(names)[:5]
    assert (order.total, order.filtered) == (MANY, len(names))


def test_page_of_thousands_of_queues_is_found_in_small_slices(driver: BrokerDriver) -> None:
    order = QueueOrder(QUEUE.number("messages"), True, 50)
    hosts = [*driver.broker.vhosts.values()]
    slices, found = turn_costs(driver.broker.work, first_steps(driver, hosts, order), LOOKING_SHARE)
    assert max(slices) <= LOOKING_SHARE + EXAMINED_AT_ONCE
    assert len(slices) >= MANY // (LOOKING_SHARE + EXAMINED_AT_ONCE)
    assert len(found) == 50


def delayed_desk() -> tuple[BrokerDriver, Queue]:
    """Return a broker with a queue of two delayed messages and a ready one, which a consumer has."""
    driver = make_driver()
    broker = driver.broker
    vhost = broker.vhosts["/"]
    queue = vhost.declare_queue("orders", {"capacity-messages": 3}, False, False, None, None)
    route = vhost.route("", "orders", False)
    vhost.resolve(route, {})
    producer = Producer(broker, "p", HoldBudget(MIB))
    for delay_s in (90, 30):
        producer.publish(route.delayed(broker.now + delay_s), make_content(Properties(), b"x"), 300)
    return driver, queue


def test_delayed_messages_are_in_rows_and_metrics_and_not_ready() -> None:
    driver, queue = delayed_desk()
    row = QUEUE.row(queue, reading(driver))
    assert (row["messages"], row["messages_ready"], row["messages_unacknowledged"]) == (2, 0, 0)
    assert field_at(row, "penstock.delayed") == {"messages": 2, "bytes": 600, "next_due_s": 30.0}
    assert of_queue(samples_of(scraped(driver, Selection(100))), "penstock_queue_delayed_messages") == 2
    delays = delays_of(queue)
    assert delays is not None
    delays.cancel_first(2, driver.broker.now)
    assert field_at(QUEUE.row(queue, reading(driver)), "penstock.delayed") is None


def test_consumer_of_delayed_messages_alone_waits_for_the_first() -> None:
    driver, queue = delayed_desk()
    session = Session()
    consumer = Consumer("c", session, queue, False, False, 0)
    driver.broker.consume(session, consumer)
    assert obstacles(consumer, driver.broker.now) == [
        "2 messages of the queue are delayed, and the first is due in 30.0 s"
    ]
    queue.enqueue(Envelope("", "orders"), make_content(Properties(), b"x"), 300, driver.broker.now)
    assert session.take_batch(consumer, 1, driver.broker.now) is not None
    assert obstacles(consumer, driver.broker.now)[-1].endswith("; the others are with a consumer, unacknowledged")
