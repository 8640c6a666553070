"""Sentences about the bridges of a queue: at the source with the target's own, at the target, and for whom."""

from __future__ import annotations

from typing import Any

from penstock.core.settings.table import Parameter
from penstock.management.bridge_lines import BRIDGES_SAID
from tests.support.blocked_scene import Scene, asked

SHOVEL = {"src-uri": "amqp://", "src-queue": "orders", "dest-uri": "amqp://u:secret@old", "dest-queue": "in"}
KEY = "shovel:/:to-old"


class Bridged(Scene):
    """A broker with a shovel of the queue orders."""

    def __init__(self, run_as: str = "guest") -> None:
        super().__init__()
        self.join().declare("orders")
        self.put("to-old", run_as)

    def put(self, name: str, run_as: str = "guest", value: dict[str, object] | None = None) -> None:
        parameters = self.driver.broker.table.parameters
        parameters.put(Parameter("shovel", "/", name, SHOVEL if value is None else value, run_as))

    def report(self, state: str, **fields: object) -> None:
        since = self.driver.broker.now + self.driver.broker.wall_offset
        self.driver.bridges.report(KEY, {"state": state, "since": since, **fields}, self.driver.broker.now)

    def why(self, queue: str = "orders") -> dict[str, Any]:
        return asked(self.driver, queue=queue)


def test_held_bridge_is_named_at_its_source_with_the_sentences_of_its_target() -> None:
    scene = Bridged()
    scene.at(100.0)
    scene.report(
        "held", reason="queue in has no room", why=["queue in: 5 messages > stop 4", "there: queue far is full"]
    )
    scene.at(112.0)
    answer = scene.why()
    assert answer["sentences"][-3:] == [
        "shovel to-old takes messages of queue orders to queue in of amqp://old/, and is held for 12.0 s: "
        "queue in has no room",
        "there: queue in: 5 messages > stop 4",
        "there: queue far is full",
    ]
    (row,) = answer["bridges"]
    assert (row["state"], row["name"]) == ("held", "to-old")
    assert "secret" not in str(answer)


def test_moving_and_paused_bridges_say_so_without_a_reason() -> None:
    scene = Bridged()
    scene.report("moving", carried=1234)
    assert scene.why()["sentences"][-1].endswith("and is moving: 1,234 messages carried")
    paused = Bridged(run_as="")
    assert paused.why()["sentences"][-1].endswith("and is paused: `penstock bridges resume to-old` runs it")


def test_bridge_is_named_at_its_target_too_and_nowhere_else() -> None:
    scene = Bridged()
    scene.join().declare("in")
    scene.put("home", value={"src-uri": "amqp://old", "src-queue": "in", "dest-uri": "amqp://", "dest-queue": "in"})
    told = scene.why("in")
    assert (
        told["sentences"][-1] == "shovel home brings messages of queue in of amqp://old/ to queue in, and is starting"
    )
    assert len(told["bridges"]) == 1
    scene.join().declare("alone")
    assert "bridges" not in scene.why("alone")


def test_bridges_of_an_answer_are_bounded() -> None:
    scene = Bridged()
    for number in range(BRIDGES_SAID + 3):
        scene.put(f"more-{number}")
    assert len(scene.why()["bridges"]) == BRIDGES_SAID
