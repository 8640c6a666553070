"""Producers in line at a queue: tickets, what waits of them, their deadlines, and who may read their names."""

from __future__ import annotations

from typing import Any

from penstock.access.permission import Permission
from tests.support.access_of import access_of
from tests.support.blocked_scene import GATED, Scene, asked
from tests.support.driven_connection import publish
from tests.support.operation_calls import ask


def line(scene: Scene, queue: str = "orders") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = asked(scene.driver, queue=queue)["line"]
    return found


def test_line_is_empty_while_the_gate_is_open() -> None:
    scene = Scene()
    scene.filled(messages=3)
    assert line(scene) == []


def test_withheld_confirmation_waits_without_a_ticket_until_its_deadline() -> None:
    scene = Scene()
    scene.filled()
    scene.at(110.0)
    (row,) = line(scene)
    assert (row["ticket"], row["held"], row["withheld"]) == (None, 0, 1)
    assert (row["blocked_for_s"], row["deadline_s"]) == (10.0, 15.0)
    assert row["gate"] == "queue orders"


def test_line_of_held_publishes_is_in_the_order_of_tickets() -> None:
    scene = Scene()
    first = scene.filled(messages=10)
    others = [scene.join() for _ in range(3)]
    for at, other in enumerate(others):
        scene.at(101.0 + at)
        for _ in range(at + 1):
            other.say(publish("orders", b"order"))
    rows = line(scene)
    tickets = [row["ticket"] for row in rows if row["ticket"] is not None]
    assert tickets == sorted(tickets)
    assert [row["held"] for row in rows] == [1, 2, 3, 0]
    assert all(row["held_bytes"] > 0 for row in rows[:3])
    assert rows[3]["producer"] == f"{first.connection.name()}/ch:1"


def test_line_lists_a_bounded_number_of_producers() -> None:
    scene = Scene()
    scene.filled(messages=10)
    for _ in range(25):
        scene.join().say(publish("orders", b"order"))
    assert len(line(scene)) == 20


def test_label_of_a_producer_has_the_name_that_its_client_chose() -> None:
    scene = Scene()
    producer = scene.join()
    producer.connection.peer.given_name = "uploader"
    producer.declare("orders", **GATED)
    for _ in range(4):
        producer.say(publish("orders", b"order"))
    (row,) = line(scene)
    assert row["label"] == f"uploader (con:{producer.connection.number})/ch:1"


def test_label_of_another_users_producer_is_only_its_number() -> None:
    scene = Scene()
    scene.filled().connection.peer.given_name = "uploader"
    access = scene.driver.broker.access
    access.put_user("reader", None, ["management"])
    access.set_permission("reader", "/", Permission("", "", ".*"))
    found = ask(scene.driver, "why", {"queue": "orders"}, access=access_of(scene.driver.broker, "reader"))
    (row,) = found["line"]
    assert row["label"] == row["producer"] == "con:1/ch:1"
