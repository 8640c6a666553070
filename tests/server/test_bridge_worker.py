"""Worker of bridges: when its process runs, what becomes of one that dies or hangs, and its connections here."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.server import bridge_worker
from penstock.server.bridge_worker import BridgeWorker
from tests.support.bridge_house import BridgeHouse, emptied, filled, house, seen
from tests.support.brokers import BrokerProcess, eventually, serving
from tests.support.http_client import Web


@pytest.fixture
async def here() -> AsyncIterator[BridgeHouse]:
    async with house() as found:
        yield found


def worker_of(here: BridgeHouse) -> BridgeWorker:
    found = here.broker.node.bridges.worker
    assert found is not None
    return found


def shovel(source: str = "a", target: str = "b") -> dict[str, object]:
    return {"src-uri": "amqp://", "src-queue": source, "dest-uri": "amqp://", "dest-queue": target}


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def has_queue(broker: BrokerProcess, name: str) -> bool:
    return any(queue["name"] == name for queue in Web(broker.http).get("/queues"))


async def running(here: BridgeHouse) -> int:
    """Wait until the worker runs a bridge, and return its process."""
    await seen(lambda: here.broker.node.bridges.worker is not None and here.row("orders")["state"] == "idle")
    pid = worker_of(here).pid
    assert pid is not None
    return pid


async def test_process_runs_while_there_are_bridges(here: BridgeHouse) -> None:
    await filled(here.url, "a", 3)
    assert here.broker.node.bridges.worker is None
    here.define("shovel", "paused", shovel(), run_as="")
    worker = BridgeWorker(here.broker.shard)
    worker.tick()
    assert worker.pid is None
    here.define("shovel", "orders", shovel())
    pid = await running(here)
    assert here.row("orders")["carried"] == 3
    assert here.row("orders")["user"] == "guest"
    here.clear("shovel", "orders")
    await seen(lambda: not is_alive(pid) and worker_of(here).pid is None)
    assert here.broker.driver.bridges.worker == ""
    here.define("shovel", "orders", shovel())
    assert await running(here) != pid


async def test_connection_of_the_worker_is_one_of_the_bridge_and_its_user(here: BridgeHouse) -> None:
    here.define("shovel", "orders", shovel())
    await running(here)
    connections = list(here.broker.driver.connections.values())
    assert {each.peer.given_name for each in connections} == {"Shovel orders"}
    assert {(each.user, each.peer.mechanism) for each in connections} == {("guest", "EXTERNAL")}
    here.clear("shovel", "orders")
    await seen(lambda: not here.broker.driver.connections)


async def test_killed_worker_comes_back_and_loses_nothing(here: BridgeHouse, caplog: pytest.LogCaptureFixture) -> None:
    here.define("shovel", "orders", shovel())
    pid = await running(here)
    for number in range(3):
        await filled(here.url, "a", 500, number * 500)
        os.kill(pid, signal.SIGKILL)
        await seen(lambda: here.broker.driver.bridges.worker != "")
        state, reason = here.row("orders")["state"], here.row("orders")["reason"]
        assert state == "away"
        assert reason.startswith("the worker of the bridges has ended (signal 9; ")
        assert "it is started again in " in reason
        await seen(lambda old=pid: worker_of(here).pid not in (None, old) and here.row("orders")["state"] == "idle")
        pid = worker_of(here).pid or 0
    await seen(lambda: here.depth("a") == 0)
    assert set(await emptied(here.url, "b")) == set(range(1_500))
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len([text for text in said if "has ended (signal 9" in text]) == 3


async def test_worker_that_hangs_is_killed_and_started_again(
    here: BridgeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.define("shovel", "orders", shovel())
    pid = await running(here)
    monkeypatch.setattr(bridge_worker, "SILENT_S", 2.5)
    os.kill(pid, signal.SIGSTOP)
    await seen(lambda: "it said nothing" in here.broker.driver.bridges.worker)
    await seen(lambda: not is_alive(pid))
    monkeypatch.undo()
    assert await running(here) != pid


async def test_worker_that_does_not_read_costs_nothing_and_gets_the_newest_definitions(here: BridgeHouse) -> None:
    here.define("shovel", "orders", shovel())
    pid = await running(here)
    os.kill(pid, signal.SIGSTOP)
    try:
        for number in range(100):
            padding = {"src-consumer-args": {"x": "y" * 20_000}}
            here.define("shovel", f"orders-{number}", {**shovel(f"a{number}", f"b{number}"), **padding})
        await seen(lambda: worker_of(here)._is_writing)
        for number in range(100):
            here.clear("shovel", f"orders-{number}")
        here.define("shovel", "last", shovel("first", "last"))
    finally:
        os.kill(pid, signal.SIGCONT)
    await seen(lambda: here.row("last")["state"] == "idle")
    assert worker_of(here).pid == pid
    assert {row["name"] for row in here.broker.driver.bridges.rows()} == {"orders", "last"}


async def test_worker_that_cannot_be_started_is_reported(here: BridgeHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    here.define("shovel", "orders", shovel())
    await seen(lambda: here.broker.driver.bridges.worker != "")
    assert "cannot be started: No such file or directory" in here.row("orders")["reason"]
    monkeypatch.undo()
    await running(here)


async def test_bridge_of_a_user_who_is_gone_says_so_and_makes_no_login(here: BridgeHouse) -> None:
    here.define("shovel", "orders", shovel(), run_as="ada")
    await seen(lambda: here.row("orders")["state"] == "away")
    assert "user 'ada' is not known" in here.row("orders")["reason"]
    assert not here.broker.driver.services.backoff.refusal("ada", "this machine")


async def test_changed_definition_ends_the_old_bridge_before_the_new_one(here: BridgeHouse) -> None:
    await filled(here.url, "a", 100)
    here.define("shovel", "orders", shovel())
    await running(here)
    here.define("shovel", "orders", shovel("b", "c"))
    await seen(lambda: here.has("c") and here.depth("c") == 100)
    assert await emptied(here.url, "c") == list(range(100))
    assert {each.peer.given_name for each in here.broker.driver.connections.values()} == {"Shovel orders"}


async def test_queue_is_not_carried_onto_itself_over_a_listener(here: BridgeHouse) -> None:
    here.define("shovel", "orders", {**shovel("a", "a"), "dest-uri": here.url})
    await seen(lambda: here.row("orders")["state"] == "refused")
    assert "queue a of this broker would be carried onto itself" in here.row("orders")["reason"]


async def test_shovel_that_has_ended_is_deleted(here: BridgeHouse) -> None:
    await filled(here.url, "a", 5)
    here.define("shovel", "orders", {**shovel(), "src-delete-after": 5})
    await seen(lambda: not here.broker.driver.bridges.rows())
    assert await emptied(here.url, "b") == list(range(5))
    await seen(lambda: worker_of(here).pid is None)


async def test_stop_of_the_broker_ends_the_worker_in_order() -> None:
    async with house() as here:
        here.define("shovel", "orders", shovel())
        pid = await running(here)
    assert not is_alive(pid)


async def test_stop_of_the_broker_kills_a_worker_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge_worker, "STOP_S", 0.2)
    async with house() as here:
        here.define("shovel", "orders", shovel())
        pid = await running(here)
        os.kill(pid, signal.SIGSTOP)
    assert not is_alive(pid)


@pytest.mark.parametrize("is_stored", [False, True])
def test_killed_broker_takes_its_worker_with_it_and_goes_on(tmp_path: Path, is_stored: bool) -> None:
    options = ("--http", "127.0.0.1:0", *(("--data", str(tmp_path / "data")) if is_stored else ()))
    with serving(tmp_path, *options) as broker:
        Web(broker.http).do("PUT", "/parameters/shovel/%2F/orders", {"value": shovel()}, 201)
        children = Path(f"/proc/{broker.pid}/task/{broker.pid}/children")
        pid = int(eventually(lambda: children.read_text().split(), "the worker")[0])
        eventually(lambda: has_queue(broker, "b"), "the bridge")
        broker.kill()
        eventually(lambda: not is_alive(pid), "the end of the worker")
    if is_stored:
        with serving(tmp_path, *options) as broker:
            asyncio.run(filled(broker.url, "a", 10))
            # The kill may have come before the queue was stored: then the bridge declares it again.
            eventually(lambda: has_queue(broker, "b") and broker.depth("b") == 10, "the bridge goes on")
