"""Thirteen situations, and the answer of `why` to each, as docs/inside/why-answers.md shows them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.content.properties import Properties
from penstock.management import why
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from penstock.wire.amqp10.spec import FLOW
from tests.support.amqp10_dialogue import Amqp10Dialogue, data_section, performative
from tests.support.block_encoder import encode_published
from tests.support.blocked_scene import GATED, Scene, asked
from tests.support.chained_queues import Chain
from tests.support.driven_connection import publish
from tests.support.setting_values import in_bytes

DOCS = Path(__file__).resolve().parents[2] / "docs" / "inside" / "why-answers.md"
OUTPUT_FULL_BODY = 256 * 1024 - 1


def out_of_credit(scene: Scene) -> list[str]:
    producer, consumer = scene.join(), scene.join()
    producer.declare("orders", **GATED)
    consumer.consume("orders", prefetch=2)
    for _ in range(6):
        producer.say(publish("orders", b"order"))
    scene.at(112.4)
    return scene.ask(queue="orders")


def no_consumer(scene: Scene) -> list[str]:
    scene.filled()
    scene.at(103.0)
    return scene.ask(queue="orders")


def cursor_behind(scene: Scene) -> list[str]:
    producer = scene.join()
    producer.declare("orders", **GATED)
    scene.control("cursor.attach", cursor="billing", queues=["orders"])
    for _ in range(4):
        producer.say(publish("orders", b"order"))
    scene.control("cursor.plan", cursor="billing", token=1, rows=3)
    scene.at(120.0)
    return scene.ask(queue="orders")


def lease_pins(scene: Scene) -> list[str]:
    producer = scene.join()
    producer.declare("orders", **GATED)
    scene.control("cursor.attach", cursor="billing", queues=["orders"])
    for _ in range(4):
        producer.say(publish("orders", b"order"))
    scene.control("lease.open", queues=["orders"], query="7c3e")
    scene.control("cursor.settle", cursor="billing", token=1, end={"orders": 4})
    scene.at(120.0)
    return scene.ask(queue="orders")


def batch_staged(scene: Scene) -> list[str]:
    scene.join().declare("orders", **GATED)
    ids = {"query": "nightly", "batch": 5, "run": "", "write": "w", "exchange": "", "routing_key": "orders"}
    scene.control("sink.begin", **ids, delivery="transactional", partition=0, attempt=0)
    header = {"stage": {**ids, "partition": 0, "attempt": 0, "row": 0, "digest": ""}}
    data = encode_published([{"value": b"order"}] * 3, {"routing_key": "orders"}, **header)
    properties = Properties(content_type="application/vnd.penstock.block", reply_to="answers")
    scene.join().say(publish("publish.block", data, properties=properties, exchange="penstock.control"))
    scene.at(160.0)
    return scene.ask(queue="orders")


def held_for_room(scene: Scene) -> list[str]:
    producer = scene.join()
    producer.declare("orders", capacity_bytes=1000, stop_bytes=900, resume_bytes=800)
    producer.say(publish("orders", b"x" * 500))
    producer.say(publish("orders", b"x" * 300))
    scene.at(102.0)
    return scene.ask(queue="orders")


def waiting_for_turn(scene: Scene) -> list[str]:
    first, second = scene.join(), scene.join()
    first.declare("orders", capacity_bytes=1000, stop_bytes=900, resume_bytes=800)
    first.say(publish("orders", b"x" * 500))
    first.say(publish("orders", b"x" * 300))
    second.say(publish("orders", b"x"))
    scene.at(102.0)
    return scene.ask(channel="2/1")


def paused_by_the_client(scene: Scene) -> list[str]:
    producer, consumer = scene.join(), scene.join()
    producer.declare("orders", **GATED)
    consumer.consume("orders")
    consumer.say(method_frame(1, spec.CHANNEL_FLOW, active=False))
    producer.say(publish("orders", b"order"))
    return scene.ask(queue="orders")


def does_not_read(scene: Scene) -> list[str]:
    producer, consumer = scene.join(), scene.join()
    producer.declare("orders")
    consumer.consume("orders")
    for _ in range(2):  # Nobody takes the consumer's output: it is full.
        producer.connection.receive(publish("orders", b"x" * OUTPUT_FULL_BODY))
        producer.listen()
    return scene.ask(connection="2")


def nothing_blocked(scene: Scene) -> list[str]:
    scene.filled(messages=3)
    return scene.ask(queue="orders")


def blocked_by_two_gates(scene: Scene) -> list[str]:
    producer = scene.join()
    for queue in ("orders", "audit"):
        producer.declare(queue, **GATED)
    for _ in range(4):
        producer.say(publish("orders", b"order"))
    scene.at(101.0)
    for _ in range(4):
        producer.say(publish("audit", b"order"))
    scene.at(103.0)
    return scene.ask(user="guest")


def deadline_passed(scene: Scene) -> list[str]:
    producer = scene.join()
    producer.declare("orders", capacity_messages=2, stop_messages=1, resume_messages=0, hold_deadline=10)
    for _ in range(5):
        producer.say(publish("orders", b"order"))
    scene.at(110.0)
    return scene.ask(connection="con:1")


def link_without_credit(scene: Scene) -> list[str]:
    sender = Amqp10Dialogue(scene.driver)
    sender.declare("orders", **GATED)
    sender.attach_sender("/queues/orders", name="invoices")
    for _ in range(8):
        sender.say(sender.transfer(data_section(b"order")))
    session = {"next_incoming_id": 0, "incoming_window": 99, "next_outgoing_id": 8, "outgoing_window": 99}
    sender.say(performative(FLOW, handle=0, delivery_count=8, link_credit=0, available=12, **session))
    scene.at(103.0)
    return scene.ask(link="invoices")


SITUATIONS: dict[str, Callable[[Scene], list[str]]] = {
    "above stop, its consumer out of credit": out_of_credit,
    "no consumer": no_consumer,
    "a cursor is behind": cursor_behind,
    "a batch read pins what its cursors have settled": lease_pins,
    "a batch is staged": batch_staged,
    "held for room": held_for_room,
    "waiting for its turn": waiting_for_turn,
    "a consumer paused by its client": paused_by_the_client,
    "a consumer that does not read": does_not_read,
    "nothing is blocked": nothing_blocked,
    "blocked by two gates": blocked_by_two_gates,
    "the deadline passed": deadline_passed,
    "a link of AMQP 1.0 without credit": link_without_credit,
}


def test_sum_over_many_queues_names_the_largest_queues() -> None:
    scene = Scene()
    thresholds = in_bytes(2000, 900, 500)
    broker = scene.driver.broker
    broker.gates.set_vhost_limit(broker.vhosts["/"], thresholds)
    producer = scene.join()
    for number, queue in enumerate(("a", "b", "c", "d", "e")):
        producer.declare(queue)
        producer.say(publish(queue, b"x" * 10 * number))
    scene.at(101.5)
    answer = asked(scene.driver, queue="a")
    assert answer["sentences"] == [
        "con:1(guest@127.0.0.1:1/)/ch:1 is blocked 1.5 s by vhost /: 1,310 bytes > stop 900 (opens at 500), "
        "closed for 1.5 s; 2 confirmations are withheld",
        "the oldest ready message of queue a has waited 1.5 s",
        "the largest of 6 queues that count in vhost /: e with 282 bytes, d with 272 bytes, c with 262 bytes",
    ]
    (gate,) = [each for each in answer["gates"] if each["kind"] == "vhost"]
    assert (gate["depth"]["bytes"], gate["stop"]["bytes"], gate["blocked"]) == (1310, 900, 1)


def documented() -> dict[str, list[str]]:
    """Return the sentences of the documentation by the situation above them."""
    found: dict[str, list[str]] = {}
    block = re.search(r"```text why\n(.*?)```", DOCS.read_text(), re.DOTALL)
    for part in block[1].strip().split("\n\n"):
        title, *sentences = part.splitlines()
        found[title.removeprefix("# ")] = sentences
    return found


@pytest.mark.parametrize("situation", SITUATIONS)
def test_why_answers_each_situation_as_documented(situation: str) -> None:
    said = SITUATIONS[situation](Scene())
    print(f"# {situation}", *said, sep="\n")
    assert said == documented()[situation]


def test_documentation_shows_exactly_these_situations() -> None:
    assert list(documented()) == list(SITUATIONS)


def test_advice_for_a_pinned_queue_is_to_end_its_lease() -> None:
    scene = Scene()
    lease_pins(scene)
    (advice,) = scene.advice()
    assert "wait for the end of the batch read, or `penstock leases end 1`" in advice


def test_rows_of_readers_have_the_lease_with_its_owner_and_end() -> None:
    scene = Scene()
    lease_pins(scene)
    cursor, lease = asked(scene.driver, queue="orders")["waits_for"]
    assert cursor["lease"] is None
    assert (lease["lease"]["user"], lease["lease"]["query"], lease["lease"]["held"]) == ("guest", "7c3e", 4)
    assert lease["lease"]["ends_in_s"] == 280.0


def test_query_that_waits_for_itself_is_named() -> None:
    chain = Chain("q1", "q2")
    chain.fill("q1")
    chain.plan("q1", 100)
    sink = chain.sink("q1")
    while not sink.outbox:
        chain.publish(sink, "q2", 100)
    gate = next(iter(sink.gates.values()))
    sentences = [each for each in why.waits_of(gate, chain.broker) if "waits for itself" in each]
    assert len(sentences) == 1
    assert "results of cursor of q1, whose messages leave" in sentences[0]
    assert "maxOffsetsPerTrigger" in sentences[0]


# A queue behind the gates of others


def test_queue_behind_a_closed_exchange_says_so() -> None:
    scene = Scene()
    producer = scene.join()
    producer.declare("orders", **GATED)
    producer.vhost.declare_exchange("logs", "topic", {}, False, False, False)
    producer.vhost.bind("logs", producer.vhost.queue("orders"), None, "eu", {})
    scene.control("block", address="logs", reason="upgrade")
    scene.at(103.0)
    assert scene.ask(queue="orders") == [
        "the operator, who holds address logs: upgrade, closed for 3.0 s; it blocks no producer"
    ]
    producer.say(publish("eu", b"order", exchange="logs"))
    scene.at(105.0)
    (sentence,) = scene.ask(queue="orders")
    assert "is blocked 2.0 s by the operator, who holds address logs: upgrade, closed for 5.0 s" in sentence
    answer = asked(scene.driver, queue="orders")
    assert (answer["road"]["held_by"], answer["road"]["blocked"]) == ("exchange", 1)
    assert [gate["name"] for gate in answer["gates"]] == ["address logs"]


def test_queue_of_a_closed_virtual_host_says_so() -> None:
    scene = Scene()
    scene.join().declare("orders", **GATED)
    scene.control("block", vhost="/")
    scene.at(103.0)
    (sentence,) = scene.ask(queue="orders")
    assert sentence.startswith("the operator, who holds vhost /, closed for 3.0 s")
