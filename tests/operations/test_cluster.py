"""Operations on the shards of a node, step by step; tests/cluster/test_node_view.py has a node with processes."""

from __future__ import annotations

from typing import Any

import pytest
from typing_extensions import override

from penstock.cluster.shard_watch import AWAY, IN_ORDER, ShardWatch
from penstock.connections.authorization import check_tag
from penstock.describe.table import Row
from penstock.driver.driver import BrokerDriver
from penstock.errors import AccessRefused, PreconditionFailed
from penstock.management.cluster import NO_SHARDS, ClusterView
from penstock.operations.table import CONTROL
from tests.support.access_of import access_of
from tests.support.driven_connection import make_driver
from tests.support.job_calls import Asker, turn
from tests.support.operation_calls import ask


class Shards(ClusterView):
    """Shards without processes: the test says what becomes of each."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.watches = {name: ShardWatch(name, 0.0) for name in names}
        self.begun: list[str] = []
        for watch in self.watches.values():
            watch.begin(0.0)
            watch.serve(0.0)

    @override
    def names(self) -> list[str]:
        return list(self.watches)

    @override
    def rows(self) -> list[Row]:
        return [{"shard": watch.name, "state": watch.state} for watch in self.watches.values()]

    @override
    def begin_restart(self, name: str) -> None:
        self.begun.append(name)
        self.watches[name].restart(1.0)

    @override
    def obstacle(self, name: str) -> str:
        watch = self.watches[name]
        if watch.state == AWAY and watch.cause:
            raise PreconditionFailed(f"shard '{name}' has not come back")
        return "" if watch.starts == 2 else f"shard '{name}' is {watch.state}"

    def come_back(self, name: str) -> None:
        watch = self.watches[name]
        watch.end(1.0, IN_ORDER)
        watch.begin(1.0)
        watch.serve(1.0)
        self.tell()

    def die(self, name: str) -> None:
        watch = self.watches[name]
        watch.end(1.0, IN_ORDER)
        watch.begin(1.0)
        watch.end(1.0, "ended with status 1")
        self.tell()

    def tell(self) -> None:
        assert self.wake is not None
        self.wake()


@pytest.fixture
def shards() -> Shards:
    return Shards("1", "2", "3")


@pytest.fixture
def operator(shards: Shards) -> Asker:
    driver = make_driver()
    driver.cluster = shards
    return Asker(driver)


def turns(driver: BrokerDriver) -> None:
    for _ in range(5):
        turn(driver)


def restart_of(operator: Asker) -> Any:
    return ask(operator.driver, "cluster.status", {})["restart"]


@pytest.mark.parametrize("operation", ["cluster.status", "cluster.restart"])
def test_operation_on_shards_is_refused_by_a_plain_broker(operation: str) -> None:
    answer = Asker(make_driver()).ask(operation)
    assert (answer["code"], NO_SHARDS in str(answer)) == (406, True), answer


def test_restart_waits_for_each_shard_before_the_next_one(operator: Asker, shards: Shards) -> None:
    operator.send("cluster.restart")
    turns(operator.driver)
    assert shards.begun == ["1"]
    job = operator.driver.jobs.of(1)
    assert job.sentence() == "job 1 (cluster.restart, all shards) is held; shard '1' is stopping; 0 of 3 shards"
    shards.come_back("1")
    turns(operator.driver)
    assert shards.begun == ["1", "2"]
    assert (restart_of(operator)["done"], restart_of(operator)["reason"]) == (["1"], "shard '2' is stopping")
    for name in ("2", "3"):
        shards.come_back(name)
        turns(operator.driver)
    assert operator.answers() == [{"restarted": ["1", "2", "3"], "newer": None}]
    assert (restart_of(operator)["state"], shards.wake) == ("done", None)


def test_restart_keeps_the_order_of_the_node(operator: Asker, shards: Shards) -> None:
    operator.send("cluster.restart", shards=["3", "1"])
    for name in ("1", "3"):
        turns(operator.driver)
        assert shards.begun[-1] == name
        shards.come_back(name)
    turns(operator.driver)
    assert operator.answers()[-1]["restarted"] == ["1", "3"]


def test_restart_ends_with_the_shard_that_does_not_come_back(operator: Asker, shards: Shards) -> None:
    operator.send("cluster.restart")
    turns(operator.driver)
    shards.die("1")
    turns(operator.driver)
    reason = "shard '1' has not come back; shards '2' and '3' were not restarted"
    assert reason in str(operator.answers()[-1])
    restart = restart_of(operator)
    assert (restart["state"], restart["reason"], restart["left"]) == ("failed", reason, ["1", "2", "3"])
    assert shards.begun == ["1"]
    assert shards.wake is None


def test_second_restart_is_refused_before_the_first_has_a_turn(operator: Asker, shards: Shards) -> None:
    operator.send("cluster.restart", detach=True)
    operator.send("cluster.restart", shards=["3"], detach=True)
    refusal = operator.answers()[-1]
    assert "shards are restarted by one request at a time: one has just been asked for" in str(refusal)
    turns(operator.driver)
    operator.send("cluster.restart", shards=["3"])
    assert "is running: 0 of 3 shards; shard '1' is stopping" in str(operator.answers()[-1])
    assert shards.begun == ["1"]


def test_cancelled_restart_begins_no_further_shard(operator: Asker, shards: Shards) -> None:
    operator.send("cluster.restart", detach=True)
    turns(operator.driver)
    ask(operator.driver, "job.cancel", {"id": 1}, None, "/", access_of(operator.driver.broker, "guest", "/"))
    turns(operator.driver)
    restart = restart_of(operator)
    assert restart["state"] == "cancelled"
    assert restart["reason"] == "cancelled by user 'guest'; shards '2' and '3' were not restarted"
    assert shards.begun == ["1"]


def test_restart_of_an_unknown_shard_names_those_of_the_node(operator: Asker, shards: Shards) -> None:
    assert "no shard '4': this node has shards '1', '2' and '3'" in str(operator.ask("cluster.restart", shards=["4"]))
    assert "has no field 'shard'" in str(operator.ask("cluster.restart", shard="1"))
    assert shards.begun == []


def test_restart_needs_an_administrator_and_status_a_monitor(operator: Asker) -> None:
    operator.driver.broker.access.put_user("ops", None, ["monitoring"])
    access = access_of(operator.driver.broker, "ops", "/")
    check_tag(access, CONTROL["cluster.status"].tag, "status")
    with pytest.raises(AccessRefused):
        check_tag(access, CONTROL["cluster.restart"].tag, "restart")
