"""Bridges: what the worker is to run, and what its reports change."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from typing_extensions import override

from penstock.connections.log_line import LogLine
from penstock.core.broker import Broker
from penstock.core.settings.limits import Defaults
from penstock.core.settings.table import Parameter
from penstock.describe.table import Row
from penstock.management.bridges import (
    COUNTS,
    TEXT_MOST,
    WHY_MOST,
    BridgeTable,
    SpecSource,
    key_of,
    read_report,
)

VALUE: Row = {"src-uri": "amqp://u:secret@old/", "src-queue": "orders", "dest-uri": "amqp://"}


class House:
    """A broker with a table of bridges."""

    def __init__(self) -> None:
        self.broker = Broker(Defaults())
        self.broker.add_vhost("/")
        self.lines: list[LogLine] = []
        self.bridges = BridgeTable(self.broker, self.lines.append)

    def put(self, name: str, run_as: str = "anna", component: str = "shovel", vhost: str = "/") -> Parameter:
        parameter = Parameter(component, vhost, name, VALUE, run_as)
        self.broker.table.parameters.put(parameter)
        return parameter

    def state(self, name: str) -> tuple[object, object]:
        (row,) = [row for row in self.bridges.rows() if row["name"] == name]
        return row["state"], row["reason"]


class Links(SpecSource):
    """Links of one upstream."""

    def __init__(self) -> None:
        self.run_as = ""
        self.queues = ["q"]
        self.changes = 0

    @property
    @override
    def epoch(self) -> int:
        return self.changes

    def specs(self) -> Iterable[Row]:
        for queue in self.queues:
            yield {
                "key": key_of("federation", "/", "up", "queue", queue), "component": "federation", "vhost": "/",
                "name": "up", "run_as": self.run_as, "revision": self.epoch, "value": {"uri": "amqp://host"},
                "link": {"kind": "queue", "resource": queue},
            }  # fmt: skip


@pytest.fixture
def house() -> House:
    return House()


def test_bridges_with_a_user_are_wanted_with_their_values(house: House) -> None:
    parameter = house.put("s")
    house.put("b", "bob", "bridge")
    house.put("waits", "")
    house.put("up", "anna", "federation-upstream")
    house.put("other", "anna", "of-a-plugin")
    assert house.bridges.wanted() == {
        "shovel:/:s": {
            "key": "shovel:/:s", "component": "shovel", "vhost": "/", "name": "s", "run_as": "anna",
            "revision": parameter.revision, "value": VALUE,
        },
        "bridge:/:b": {
            "key": "bridge:/:b", "component": "bridge", "vhost": "/", "name": "b", "run_as": "bob",
            "revision": parameter.revision + 1, "value": VALUE,
        },
    }  # fmt: skip
    assert house.state("waits") == ("paused", "")


def test_keys_of_names_with_colons_differ() -> None:
    assert key_of("shovel", "a:b", "c") != key_of("shovel", "a", "b:c")
    assert key_of("shovel", "a%3Ab", "c") != key_of("shovel", "a:b", "c")


def test_epoch_grows_with_each_change_of_parameters_and_links(house: House) -> None:
    links = Links()
    house.bridges.sources.append(links)
    seen = [house.bridges.epoch]
    house.put("s")
    seen.append(house.bridges.epoch)
    house.bridges.restart("shovel", "/", "s")
    seen.append(house.bridges.epoch)
    house.broker.table.parameters.drop("shovel", "/", "s")
    seen.append(house.bridges.epoch)
    links.changes += 1
    seen.append(house.bridges.epoch)
    assert seen == sorted(set(seen))


def test_links_of_an_upstream_are_bridges_that_are_paused_with_it(house: House) -> None:
    links = Links()
    house.bridges.sources.append(links)
    assert house.bridges.wanted() == {}
    assert house.state("up") == ("paused", "")
    links.run_as, links.changes = "anna", 1
    assert list(house.bridges.wanted()) == ["federation:/:up:queue:q"]
    (row,) = house.bridges.rows()
    assert row["link"] == {"kind": "queue", "resource": "q"}


def test_upstream_without_links_is_listed_and_not_wanted(house: House) -> None:
    house.put("up", "anna", "federation-upstream")
    house.put("other", "", "federation-upstream")
    assert house.state("up") == ("unused", "no policy gives upstream up to a queue or an exchange")
    assert house.state("other") == ("paused", "")
    assert house.bridges.wanted() == {}
    links = Links()
    links.run_as = "anna"
    house.bridges.sources.append(links)
    house.put("more")
    assert house.state("up") == ("starting", "")
    assert [row["key"] for row in house.bridges.rows()] == [
        *("federation-upstream:/:other", "federation:/:up:queue:q", "shovel:/:more"),
    ]


def test_ends_are_those_of_the_parameter_before_the_first_report(house: House) -> None:
    house.put("s")
    (row,) = house.bridges.rows()
    assert (row["source"], row["target"]) == ("queue orders of amqp://old/", "this broker")


def test_report_is_in_the_row_of_its_bridge(house: House) -> None:
    house.put("s")
    assert house.state("s") == ("starting", "")
    report: Row = {
        "state": "held", "reason": "the target has no room", "since": 5.5, "carried": 7, "bytes": 70, "refused": 1,
        "again": 2, "last": 6.5, "lag": 3, "delivery": "exactly once", "why": ["queue a is full"],
        "source": "queue a of amqp://old/", "target": "queue b here",
    }  # fmt: skip
    house.bridges.report("shovel:/:s", report, 1.0)
    (row,) = house.bridges.rows("/")
    identity = {"name": "s", "vhost": "/", "component": "shovel", "key": "shovel:/:s", "user": "anna", "link": None}
    assert row == {**identity, **report}
    assert house.bridges.rows("other") == []


def test_report_of_an_unknown_or_paused_bridge_or_former_revision_is_dropped(house: House) -> None:
    house.put("waits", "")
    first = house.put("s")
    second = house.put("s")
    house.bridges.report("shovel:/:none", {"state": "moving"}, 1.0)
    house.bridges.report("shovel:/:waits", {"state": "moving"}, 1.0)
    house.bridges.report("shovel:/:s", {"state": "ended", "revision": first.revision}, 1.0)
    assert [house.state(name)[0] for name in ("waits", "s")] == ["paused", "starting"]
    house.bridges.report("shovel:/:s", {"state": "moving", "revision": second.revision}, 1.0)
    assert house.state("s") == ("moving", "")


def test_report_is_forgotten_when_its_bridge_changes_and_stays_otherwise(house: House) -> None:
    house.put("s")
    house.bridges.report("shovel:/:s", {"state": "moving"}, 1.0)
    house.put("another")
    assert house.state("s") == ("moving", "")
    assert house.bridges.restart("shovel", "/", "s")
    assert house.state("s") == ("starting", "")
    assert not house.bridges.restart("shovel", "/", "none")


def test_change_of_one_parameter_reads_no_other_bridge_again(house: House) -> None:
    house.put("s")
    shovel = house.bridges.get("shovel:/:s")
    house.put("another")
    assert house.bridges.get("shovel:/:s") is shovel
    house.bridges.restart("shovel", "/", "s")
    assert house.bridges.get("shovel:/:s") is not shovel


def test_bridges_are_away_while_the_worker_is(house: House) -> None:
    house.put("s")
    house.put("waits", "")
    house.bridges.report("shovel:/:s", {"state": "moving", "carried": 5}, 1.0)
    house.bridges.worker = "the worker is started again in 2 s: it was killed"
    assert house.state("s") == ("away", "the worker is started again in 2 s: it was killed")
    assert house.state("waits") == ("paused", "")
    assert [row["carried"] for row in house.bridges.rows()] == [5, 0]


@pytest.mark.parametrize("component", ["shovel", "bridge"])
def test_bridge_that_has_ended_is_deleted_with_its_parameter(house: House, component: str) -> None:
    house.put("s", component=component)
    house.bridges.report(f"{component}:/:s", {"state": "ended"}, 1.0)
    assert house.bridges.wanted() == {}
    assert house.broker.table.parameters.get(component, "/", "s") is None
    assert [line.text for line in house.lines] == [f"[vh(/)] {component} 's' has ended; deleted"]


@pytest.mark.parametrize("bad", [None, "x" * 10, -1, True, {}, [5]])
def test_values_of_other_types_in_a_report_become_defaults(bad: object) -> None:
    names = ("state", "since", "last", "lag", "delivery", "why", *COUNTS)
    found = read_report(dict.fromkeys(names, bad))
    assert [found[name] for name in ("state", "since", "last", "lag", "delivery")] == [
        *("starting", None, None, None, "at least once"),
    ]
    assert [found[name] for name in COUNTS] == [0, 0, 0, 0]
    assert found["why"] == ([""] if isinstance(bad, list) else [])


def test_texts_of_a_report_are_bounded() -> None:
    long = "x" * (TEXT_MOST + 5)
    found = read_report({"state": "refused", "reason": long, "source": long, "why": [long] * (WHY_MOST + 5)})
    assert [len(str(found[name])) for name in ("reason", "source")] == [TEXT_MOST] * 2
    assert found["why"] == ["x" * TEXT_MOST] * WHY_MOST
