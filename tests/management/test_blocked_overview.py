"""`penstock why` without a name: each closed gate that blocks producers, longest first, with advice."""

from __future__ import annotations

import pytest

from penstock.content.properties import Properties
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.producer import Producer
from penstock.flow.work import finish
from penstock.management import blocked_overview
from penstock.management.blocked_overview import GATES_TOLD
from penstock.protocols.amqp091.content_frames import make_content
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.blocked_scene import GATED, Scene, asked
from tests.support.driven_connection import publish
from tests.support.setting_values import in_bytes


def test_gates_are_listed_once_with_the_longest_blocked_producer_first() -> None:
    scene = Scene()
    scene.filled("late")
    scene.at(103.0)
    scene.filled("later")
    for _ in range(2):
        scene.join().say(publish("late", b"order"))
    scene.at(105.0)
    assert scene.ask() == [
        "con:1(guest@127.0.0.1:1/)/ch:1 is blocked 5.0 s by queue late: 6 messages > stop 3 (opens at 1), "
        "closed for 5.0 s; 1 confirmation is withheld",
        "and 2 more producers are blocked by queue late",
        "queue late has no consumer",
        "advice: start a consumer of queue late, or drop its messages (`penstock queues purge late`)",
        "con:2(guest@127.0.0.1:1/)/ch:1 is blocked 2.0 s by queue later: 4 messages > stop 3 (opens at 1), "
        "closed for 2.0 s; 1 confirmation is withheld",
        "queue later has no consumer",
        "advice: start a consumer of queue later, or drop its messages (`penstock queues purge later`)",
    ]
    gates = asked(scene.driver)["gates"]
    assert [(gate["name"], gate["blocked"], gate["blocked_for_s"]) for gate in gates] == [
        ("late", 3, 5.0),
        ("later", 1, 2.0),
    ]
    assert [gate["longest"] for gate in gates] == [f"con:{n}(guest@127.0.0.1:1/)/ch:1" for n in (1, 2)]


def test_overview_without_blocked_producers_says_so() -> None:
    scene = Scene()
    scene.join().declare("orders", **GATED)
    assert scene.ask() == ["no producer is blocked"]
    assert asked(scene.driver)["gates"] == []


def test_answer_lists_the_first_gates_and_counts_the_rest() -> None:
    scene = Scene()
    for number in range(GATES_TOLD + 3):
        scene.filled(f"q{number:02}")
    answer = asked(scene.driver)
    assert [gate["name"] for gate in answer["gates"]] == [f"q{number:02}" for number in range(GATES_TOLD)]
    assert (answer["more_gates"], answer["sentences"][-1]) == (3, "and 3 more gates block producers")


def test_answer_counts_as_work() -> None:
    scene = Scene()
    for number in range(5):
        scene.filled(f"q{number}")
    before = scene.driver.broker.work.done
    finish(blocked_overview.of_everything_steps(scene.driver, "/"))
    assert scene.driver.broker.work.done - before >= 5 * blocked_overview.GATE_WORK


def test_overview_of_many_producers_takes_turns_and_omits_those_that_left() -> None:
    scene = Scene()
    gone = scene.filled("a")
    scene.filled("b")
    work = scene.driver.broker.work
    steps = blocked_overview.of_everything_steps(scene.driver, "/")
    work.limit = work.done + 1
    next(steps)
    scene.driver.disconnect(gone.connection)
    turns = 1
    while True:
        work.limit = work.done + 1
        try:
            next(steps)
        except StopIteration as end:
            answer = end.value
            break
        turns += 1
    assert turns > 1
    assert [gate["name"] for gate in answer["gates"]] == ["b"]
    queue = scene.driver.broker.vhosts["/"].queues["a"]
    assert not queue.gate.stats.blocks, "the book has nothing about a producer that has gone"


def test_advice_is_about_the_obstacle_of_the_queue() -> None:
    scene = Scene()
    scene.filled("orders")
    consumer = scene.join()
    consumer.consume("orders", prefetch=1)
    assert scene.advice() == ["advice: add consumers, or find what keeps those of queue orders (`penstock why orders`)"]
    consumer.say(method_frame(1, spec.BASIC_QOS, prefetch_count=9))
    consumer.say(method_frame(1, spec.BASIC_CONSUME, queue="orders", consumer_tag="c2"))
    assert scene.advice() == [
        "advice: all messages of queue orders are unacknowledged: have its consumers acknowledge, or add consumers"
    ]


def test_advice_at_delayed_messages_alone_names_their_cancellation() -> None:
    scene = Scene()
    broker = scene.driver.broker
    client = scene.join()
    client.declare("orders", **GATED)
    vhost = broker.vhosts["/"]
    queue = vhost.queues["orders"]
    route = vhost.route("", "orders", False)
    vhost.resolve(route, {})
    later = Producer(broker, "later", HoldBudget(1 << 20))
    while queue.fits(300):
        later.publish(route.delayed(broker.now + 60), make_content(Properties(), b"x"), 300)
    client.say(publish("orders", b"order"))
    assert scene.advice() == [
        "advice: all messages of queue orders are delayed: raise its capacity, or `penstock messages cancel orders all`"
    ]


def test_advice_names_the_slowest_cursor_and_its_deletion() -> None:
    scene = Scene()
    producer = scene.join()
    producer.declare("orders", **GATED)
    scene.control("cursor.attach", cursor="billing", queues=["orders"])
    for _ in range(4):
        producer.say(publish("orders", b"order"))
    assert scene.advice() == [
        "advice: start the reader of cursor billing again; if it is gone for good, `penstock cursors delete billing`"
    ]


@pytest.mark.parametrize(
    ("scope", "name"), [("queue", "orders"), ("user", "guest"), ("connection", "con:1(guest@127.0.0.1:1/)")]
)
def test_operator_block_is_released_by_the_advised_command(scope: str, name: str) -> None:
    scene = Scene()
    producer = scene.join()
    producer.declare("orders")
    scene.control("block", **{scope: name})
    producer.say(publish("orders", b"order"))
    (said,) = scene.advice()
    noun, verb, advised = said.partition("`penstock ")[2].partition("`")[0].split(" ", 2)
    assert verb == "unblock"
    scene.control(verb, **{noun.removesuffix("s"): advised})
    scene.at(101.0)
    assert scene.ask() == ["no producer is blocked"]


def test_sum_over_queues_is_advised_about_as_such() -> None:
    scene = Scene()
    broker = scene.driver.broker
    thresholds = in_bytes(2000, 900, 500)
    broker.gates.set_vhost_limit(broker.vhosts["/"], thresholds)
    producer = scene.join()
    producer.declare("orders")
    for _ in range(4):
        producer.say(publish("orders", b"order"))
    assert scene.advice() == [
        "advice: consume from its largest queues, or raise its capacity (`penstock vhosts show /`)"
    ]


def test_waiting_dead_letters_are_among_the_blocked() -> None:
    scene = Scene()
    producer = scene.join()
    producer.declare("graves", capacity_messages=1)
    producer.declare("work", message_ttl=0, dead_letter_exchange="", dead_letter_routing_key="graves")
    producer.say(publish("work", b"one") + publish("work", b"two"))
    scene.at(101.0)
    (gate,) = asked(scene.driver)["gates"]
    assert (gate["name"], gate["blocked"], gate["longest"]) == ("graves", 1, "vh(/)/qu(work)/dead-letters")


def test_advice_for_a_queue_elsewhere_names_its_virtual_host() -> None:
    scene = Scene()
    scene.filled("orders")
    answer = finish(blocked_overview.of_everything_steps(scene.driver, "staging"))
    assert str(answer["sentences"]).count("advice, in vhost /: start a consumer of queue orders") == 1
