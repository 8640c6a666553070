"""The queues that need attention most, in an order and with sums, a share of work a turn."""

from __future__ import annotations

import pytest

from penstock.driver.driver import BrokerDriver
from penstock.flow.work import LOOKING_SHARE
from penstock.operations.top import HISTORIES_MOST
from tests.support.blocked_scene import GATED, Scene
from tests.support.control_requests import answer_to, answers, request, turns_until_answered, with_queues
from tests.support.driven_connection import publish


def names(driver: BrokerDriver, **fields: object) -> list[str]:
    return [each["name"] for each in answer_to(driver, "top", **fields)["items"] if each["name"] != "answers"]


@pytest.fixture
def scene() -> Scene:
    """Queues: `first` and `second` are blocked, `first` longer; `deep` is fuller of messages, `wide` of bytes."""
    scene = Scene()
    producer = scene.join()
    for name, messages, size in (("wide", 1, 9_000), ("deep", 9, 1), ("first", 4, 1), ("second", 5, 1)):
        producer.declare(name, **(GATED if name in ("first", "second") else {"capacity-messages": 100}))
        scene.at(100.0 if name != "second" else 103.0)
        for _ in range(messages):
            producer.say(publish(name, b"x" * size)) if name != "second" else scene.join().say(publish(name, b"x"))
    scene.at(105.0)
    return scene


def test_queues_are_ordered_by_their_blocking_time_then_by_their_amounts(scene: Scene) -> None:
    driver = scene.driver
    assert names(driver) == ["first", "second", "deep", "wide"]
    assert names(driver, order="messages") == ["deep", "second", "first", "wide"]
    assert names(driver, order="bytes")[:2] == ["wide", "deep"]
    assert names(driver, order="fill")[-2:] == ["deep", "wide"]
    assert sorted(names(driver, order="rate")) == ["deep", "first", "second", "wide"]
    assert names(driver, count=1) == ["first"]
    assert names(driver, prefix="de") == ["deep"]


def test_sums_are_over_all_queues_and_not_only_over_the_first(scene: Scene) -> None:
    found = answer_to(scene.driver, "top", count=1, prefix="")
    sums = found["sums"]
    assert (sums["queues"], sums["gates_closed"]) == (5, 2), "with that of the answers, which no connection owns here"
    assert sums["messages"] >= 19
    assert sums["rates"] == {"publish": 0.0, "deliver_get": 0.0}, "nobody has sampled yet"
    assert found["connections"] >= 1
    assert found["items"][0]["penstock"]["gate"]["closed_for_s"] == 5.0


def test_queue_is_listed_by_name_and_an_unknown_name_is_an_error(scene: Scene) -> None:
    assert names(scene.driver, queue="deep") == ["deep"]
    assert answer_to(scene.driver, "top", queue="none")["code"] == 404
    found = answer_to(scene.driver, "top", order="odd")
    assert found["code"] == 406
    assert "'order' must be one of blocked, fill, messages, bytes, rate, not 'odd'" in found["text"]


def test_thousands_of_queues_are_ranked_a_share_a_turn() -> None:
    turns = turns_until_answered(with_queues(), request("top", count=1))
    assert max(turns) <= LOOKING_SHARE + 100
    assert sum(turns) < 2 * 3_000 + 1_000, "only the first are made plain data"


def test_histories_are_there_if_wanted_and_bounded(scene: Scene) -> None:
    driver = scene.driver
    assert all("history" not in each for each in answer_to(driver, "top")["items"])
    for slot in range(22, 100):
        scene.at(slot * 5.0)
        driver.stats.sample(driver.connections)
    first = answer_to(driver, "top", history=3, queue="first")["items"][0]
    history = {"seconds": 5, "messages": [4, 4, 4], "fill": [40.0, 40.0, 40.0], "closed": [1.0, 1.0, 1.0]}
    assert first["history"] == history
    assert {len(each["history"]["messages"]) for each in answer_to(driver, "top", history=1000)["items"]} == {60}
    assert answer_to(driver, "top", history=-1)["code"] == 406


@pytest.mark.parametrize(
    "settings",
    [
        {"capacity-messages": 50},
        {"capacity-messages": 50, "capacity-bytes": 40_000},
        {"capacity-messages": "none", "x-max-length-bytes": 40_000, "x-overflow": "block"},
        {"capacity-messages": "none", "capacity-bytes": "none"},
    ],
)
def test_fill_of_the_newest_sample_is_that_of_the_queue(settings: dict[str, object]) -> None:
    scene = Scene()
    producer = scene.join()
    producer.declare("filled", **settings)
    for _ in range(3):
        producer.say(publish("filled", b"x" * 9_000))
    for slot in range(20, 23):
        scene.at(slot * 5.0)
        scene.driver.stats.sample(scene.driver.connections)
    found = answer_to(scene.driver, "top", history=1, queue="filled")["items"][0]
    fill = found["penstock"]["fill_percent"]
    assert found["history"]["fill"] == (None if fill is None else [fill])


def test_histories_count_as_work_and_are_limited_to_the_first_queues() -> None:
    work = sum(turns_until_answered(with_queues(), request("top", count=500)))
    driver = with_queues()
    assert sum(turns_until_answered(driver, request("top", count=500, history=60))) >= work + HISTORIES_MOST * 10
    assert ["history" in each for each in answers(driver)[0]["items"]] == [True] * HISTORIES_MOST + [False] * 400
