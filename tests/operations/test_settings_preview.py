"""Preview of a change of settings: the limits before and after, and what happens to the gate at once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.connections.control_request import ControlRequest
from penstock.core.queue.queue import Queue
from penstock.errors import PreconditionFailed
from penstock.flow.work import finish
from penstock.operations.settings import preview_steps
from tests.support import at_once
from tests.support.blocked_scene import GATED, Scene
from tests.support.driven_connection import publish


def preview(scene: Scene, queue: str, **settings: object) -> Any:
    body = json.dumps({"queue": queue, "settings": settings}).encode()
    vhost = scene.driver.broker.vhosts["/"]
    return finish(preview_steps(scene.driver, ControlRequest(vhost, None, None, None, body)))


def filled(count: int, name: str = "orders", **arguments: int) -> tuple[Scene, Queue]:
    scene = Scene()
    producer = scene.join()
    producer.declare(name, **arguments)
    for _ in range(count):
        producer.say(publish(name, b"order"))
    return scene, scene.driver.broker.vhosts["/"].queues[name]


def test_lower_capacity_would_close_the_gate_and_nothing_is_changed() -> None:
    scene, queue = filled(90)
    before = queue.thresholds
    found = preview(scene, "orders", **{"capacity-messages": 100})
    assert [found["after"][name]["messages"] for name in ("resume", "stop", "capacity")] == [70, 80, 100]
    assert found["sentences"][0].startswith("its gate closes at once: the depth is 90 messages")
    assert found["sentences"][1].startswith("it opens again when the depth is at most resume 70 messages")
    assert queue.thresholds is before
    assert queue.gate.open
    assert scene.driver.broker.table.entries() == []


def test_depth_above_the_new_capacity_is_reported() -> None:
    scene, _ = filled(90)
    assert any(
        "above the new capacity" in each for each in preview(scene, "orders", **{"capacity-messages": 50})["sentences"]
    )


def test_higher_capacity_would_open_the_gate_to_waiting_producers() -> None:
    scene, queue = filled(0)
    at_once.set_named(scene.driver.broker, "queue", "orders", capacity_messages=10)
    producer = scene.join()
    for _ in range(9):
        producer.say(publish("orders", b"order"))
    assert not queue.gate.open
    (sentence,) = preview(scene, "orders", **{"capacity-messages": 100})["sentences"]
    assert sentence.startswith("its gate opens at once: the depth is 9 messages")
    assert sentence.endswith("and 1 producer continues")
    assert preview(scene, "orders", **{"capacity-messages": 11})["sentences"][0].startswith(
        "its gate stays closed until"
    )


def test_argument_of_the_declaration_is_stronger() -> None:
    scene, _ = filled(4, **GATED)
    found = preview(scene, "orders", **{"capacity-messages": 100})
    assert found["before"] == found["after"]
    assert found["sentences"] == [
        "its limits stay as they are",
        "capacity-messages=100 has no effect on queue orders: argument capacity-messages=10 is stronger; "
        "`set --override` is stronger than all",
    ]


def test_queues_that_match_the_name_besides_are_counted_in_a_preview() -> None:
    scene, _ = filled(0, "a.#")
    scene.join().declare("a.b")
    assert preview(scene, "a.#", **{"capacity-messages": 5})["sentences"][-1] == (
        "the pattern 'a.#' matches 1 more queue, which would change as well"
    )


def test_change_that_would_be_refused_is_refused() -> None:
    scene, _ = filled(0)
    with pytest.raises(PreconditionFailed, match="needs a data directory"):
        preview(scene, "orders", overflow="page")
    assert scene.driver.broker.table.entries() == []
