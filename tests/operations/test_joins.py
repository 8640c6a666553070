"""Joins: two brokers with one virtual host each answer as one with both, for each operation that asks all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.describe.table import Row, field_at
from penstock.driver.driver import BrokerDriver
from penstock.errors import BrokerError, PreconditionFailed
from penstock.management.operation import (
    ALL,
    ANYWHERE,
    CATALOGUE,
    LOOKS,
    NODE,
    PAGES,
    VHOST,
    Asked,
    Operation,
    may_answer,
    name_of,
    who_answers,
)
from penstock.operations.table import CONTROL, KINDS, OPERATIONS
from tests.support.halves import HOSTS, TAGS, Scene, answer_of, comparable, differences, joined_answer

OF_ALL = {name_of(row): row for row in OPERATIONS if ALL in may_answer(row)}
OWN = {
    "id": "numbers of jobs and of alarms begin in each process",
    "lease": "numbers of leases begin in each process",
    "number": "numbers of leases and of connections begin in each process",
    "limit": "each process has the whole of a pool until a node divides it",
    "turns": "longest turns of one event loop",
    "memory_used": "memory of one process, which all brokers of these tests share",
    "mem_used": "the same",
    "mem_limit": "the same",
    "proc_used": "threads of one process",
}
"""Fields that are each process's own, each with the reason."""
CONNECTION = "10.0.{}.2:5000 -> unknown:0"
NAMES = [CONNECTION.format(0), CONNECTION.format(1), "10.0.9.9:1 -> unknown:0"]
"""Names of a connection in each virtual host, and of none."""
NEW_NAMES = [name.replace(".2:", ".3:") for name in NAMES[:2]]
"""Those of connections over AMQP 1.0."""
SAMPLES = {"rates": [60, 5], "lengths": [60, 5]}
QUEUE_LIMIT = {"scope": "queue", "settings": {"hold-deadline": "7 s"}}
ALARM_CHECKS = "GET /healthchecks/node"
DEFINED: dict[str, Any] = {
    "users": [{"name": "new", "password_hash": "", "tags": "management"}],
    "global_parameters": [{"name": "g3", "value": 3}],
    "permissions": [{"user": "app", "vhost": host, "configure": "", "write": "^a", "read": ".*"} for host in HOSTS],
    "vhosts": [{"name": host, "description": f"vhost {host}"} for host in HOSTS],
    "settings": [{"scope": "queue", "pattern": "new*", "settings": {"capacity-messages": 5}},
                 {"scope": "queue", "pattern": "other/q1", "settings": {"capacity-messages": 6}}],
    "policies": [{"vhost": host, "name": "extra", "pattern": "^new", "definition": {"max-length": 7}}
                 for host in HOSTS],
    "queues": [{"vhost": host, "name": f"new{number}", "durable": True} for number, host in enumerate(HOSTS)]
              + [{"vhost": host, "name": "q0", "durable": True, "arguments": {"x-queue-type": "quorum"}}
                 for host in HOSTS],
    "bindings": [{"vhost": "other", "source": "amq.topic", "destination": "new1", "destination_type": "queue"}],
}  # fmt: skip
"""A file with entries of each kind, and for each virtual host."""


def imported(**more: object) -> Row:
    """Return a request for the import of that file."""
    return {"definitions": json.dumps(DEFINED, indent=1), "everywhere": True, **more}


CASES: dict[str, list[Row]] = {
    "why": [{}, {"user": "guest"}, {"user": "app"}, {"user": "none"}, *({"connection": name} for name in NAMES),
            *({"channel": f"{name} (1)"} for name in NAMES), {"user": "app", "connection": NAMES[0]}],
    "info": [{"user": "guest"}, {"user": "app"}, {"user": "none"}, *({"connection": name} for name in NAMES), {}],
    "watch": [{"after": 0}, {}, {"after": 1000}],
    "status": [{}],
    "top": [{"everywhere": True, "order": order, "count": count, "history": 3}
            for order in ("blocked", "fill", "messages", "bytes", "rate") for count in (3, 100)]
           + [{"everywhere": True, **more} for more in ({"prefix": "q"}, {"order": "none"}, {"count": 0})],
    "show": [{"vhost": "/"}, {"vhost": "other"}, {"vhost": "none"}, {"user": "app"}, {"user": "none"}, {"broker": ""},
             {"user": "app", "each": "connection"}, *({"connection": name} for name in NAMES)],
    "settings.list": [{"everywhere": True}],
    "GET /penstock/settings": [{"everywhere": True}, {"scope": "user", "name": "app"},
                               {"scope": "vhost", "name": "other"}, {"scope": "producer", "name": "app"}],
    "settings.set": [QUEUE_LIMIT | {"pattern": name, "everywhere": True} for name in ("orders", "#", "none", "q*")]
                    + [{"scope": "user", "pattern": "app", "settings": {"rate-messages": 5}},
                       {"scope": "vhost", "pattern": "other", "settings": {"capacity-messages": 5000}},
                       {"scope": "broker", "settings": {"hold-deadline": "8 s"}}],
    "settings.unset": [{"scope": "queue", "pattern": "spare", "names": None, "everywhere": True},
                       {"scope": "queue", "pattern": "none", "names": None, "everywhere": True},
                       {"scope": "user", "pattern": "app", "names": ["rate-messages"]}],
    "block": [{"vhost": "/", "reason": "night"}, {"user": "app"}, {"user": "none"}, {"vhost": "none"},
              *({"connection": name} for name in NAMES)],
    "unblock": [{"vhost": "other"}, {"vhost": "/"}, {"user": "app"}, *({"connection": name} for name in NAMES)],
    "policy.list": [{"everywhere": True}, {"everywhere": True, "operator": True}],
    "parameter.list": [{"everywhere": True}],
    "connection.close": [{"connection": name, "reason": "night"} for name in NAMES],
    "connection.set": [{"connection": name, "settings": {"rate-messages": 7}} for name in NAMES],
    "connection.unset": [{"connection": name, "names": None} for name in NAMES],
    "GET /connections/{name}": [{"name": name} for name in NAMES],
    "GET /channels/{name}": [{"name": f"{name} (1)"} for name in NAMES],
    "GET /connections/{name}/sessions": [{"name": name} for name in [*NAMES, *NEW_NAMES]],
    "DELETE /connections/{name}": [{"name": name} for name in NAMES],
    "DELETE /connections/username/{user}": [{"user": "app"}, {"user": "guest"}],
    "GET /connections/username/{user}": [{"user": user} for user in TAGS],
    "GET /connections/{name}/channels": [{"name": name} for name in NAMES],
    "GET /parameters": [{}, {"component": "shovel"}, {"component": "none"}],
    "definitions.export": [{"everywhere": True}, *({"whole": True, "everywhere": True, "for_rabbitmq": each}
                                                  for each in (False, True))],
    "GET /overview": [{}, SAMPLES],
    "GET /penstock/history": [{}, {"seconds": "5"}, {"seconds": "6"}],
    "GET /penstock/find": [{"q": "o"}, {"q": "app"}, {"q": ""}],
    "POST /penstock/hours": [{"queues": [["/", "orders"], ["other", "orders"], ["none", "orders"], ["/", "none"]]},
                             {"queues": []}, {"queues": [["/"]]}, {"queues": "orders"}],
    "definitions.import": [imported(), imported(dry_run=True), imported(skip=["queues"], skip_refused=True),
                           imported(definitions="{"), imported(definitions='{"queues": [{"vhost": "/"}]}')],
    "alarm.list": [{}],
    "health": [{}],
    ALARM_CHECKS: [{}],
    "GET /healthchecks/node/{node}": [{"node": "seed"}, {"node": "other"}],
    "GET /health/checks/virtual-hosts": [{}],
    "GET /nodes": [{}],
    "GET /nodes/{name}": [{"name": "seed"}, {"name": "other"}],
    "GET /penstock/resources": [{}],
    "GET /health/checks/below-node-connection-limit": [{}],
    "job.list": [{}, {"state": "waiting"}, {"state": "none"}],
    "GET /penstock/jobs": [{}, {"state": "waiting"}, {"within": "0"}, {"within": "x"}],
    "job.show": [{"id": 1}, {"id": 99}],
    "job.cancel": [{"id": 1}, {"id": 99}],
}  # fmt: skip
"""Requests of each operation. Lists without fields are asked in all orders and pages."""
CHANGES = {name for name, row in OF_ALL.items() if row.how != LOOKS}
WITHOUT_FIELDS = {name for name, row in OF_ALL.items() if row.gives == PAGES and name not in CASES}
NUMBERED = "GET /penstock/leases"
"""List whose names are numbers of each process."""


class Halves:
    """The scenario in one broker, and in two."""

    def __init__(self) -> None:
        self.whole = Scene(HOSTS).driver
        self.parts: list[BrokerDriver] = [Scene([host]).driver for host in HOSTS]

    def both(self, row: Operation, fields: Row, user: str = "guest", vhost: str = "/") -> tuple[Any, Any]:
        """Return the answer of the whole, or its error, and the joined one."""
        return (
            tried(lambda: answer_of(self.whole, row, fields, user, vhost)),
            tried(lambda: joined_answer(self.parts, row, fields, user, vhost)),
        )

    def check(self, row: Operation, fields: Row, user: str = "guest", vhost: str = "/") -> Any:
        whole, joined = [unordered(row, fields, each) for each in self.both(row, fields, user, vhost)]
        assert differences(whole, joined) == [], (name_of(row), fields, user)
        return whole


def unordered(row: Operation, fields: Row, answer: Any) -> Any:
    """Return an answer with what has no order across brokers in an order of its own.

    Those are records of one moment, and sentences about the connections of a user, which each broker orders by kind.
    """
    if isinstance(answer, dict) and row.name == "watch":
        return {"items": sorted(answer["items"], key=lambda record: (record["wall"], str(sorted(record.items()))))}
    if isinstance(answer, dict) and row.name in ("why", "info") and "user" in fields:
        return {**answer, "sentences": sorted(answer["sentences"])}
    return answer


def tried(ask: Any) -> Any:
    try:
        return comparable(ask(), OWN)
    except BrokerError as error:
        return comparable(f"{int(error.code)} {error}", OWN)


@pytest.fixture(scope="module")
def halves() -> Halves:
    """Brokers that nobody changes."""
    return Halves()


def test_scenario_has_all_that_answers_tell_of(halves: Halves) -> None:
    for host in HOSTS:
        vhost = halves.whole.broker.vhost(host)
        depths = {name: queue.depth_messages() for name, queue in vhost.queues.items()}
        assert depths["dead"] == 1
        assert vhost.queue("work").unacked_messages == 1
        assert not vhost.queue("orders").gate.open
    assert not halves.whole.broker.vhost("/").queue("late").gate.open  # All publishes to the other one are held.
    protocols = {connection.engine.details()["protocol"] for connection in halves.whole.connections.values()}
    assert len(protocols) == 2
    kinds = {gate["kind"] for gate in answer_of(halves.whole, CONTROL["why"], {}, "guest", "/")["gates"]}
    assert kinds == {"queue", "operator"}


# Which brokers answer


def test_operation_says_which_brokers_answer() -> None:
    silent = [name_of(row) for row in OPERATIONS if not set(may_answer(row)) <= {VHOST, CATALOGUE, ALL, NODE}]
    assert silent + [name_of(row) for row in OPERATIONS if not may_answer(row)] == []


def test_path_with_a_virtual_host_asks_its_broker_or_the_catalogue() -> None:
    wrong = [
        (path, may_answer(row))
        for row in OPERATIONS
        for route in row.routes
        for path in route.paths
        if "{vhost}" in path and not (route.vhost == ANYWHERE and may_answer(row) == (NODE,))
        if not {VHOST, CATALOGUE}.intersection(may_answer(row)) or who_answers(row, {"vhost": "/"}) in (ALL, NODE)
    ]
    assert wrong == []


def test_path_without_a_virtual_host_never_asks_one_broker_for_it() -> None:
    wrong = [
        path
        for row in OPERATIONS
        for route in row.routes
        for path in route.paths
        if "{vhost}" not in path and not route.queried and who_answers(row, route.fixed | {"everywhere": True}) == VHOST
    ]
    assert wrong == []


def test_operation_that_asks_all_has_a_join_and_a_case() -> None:
    assert [name for name, row in OF_ALL.items() if row.join is None] == []
    assert OF_ALL.keys() - {"list"} == CASES.keys() | WITHOUT_FIELDS
    assert [name for name in WITHOUT_FIELDS if "{" in name.split()[1]] == [], (
        "lists with a part of the path need a case"
    )


def test_operation_that_never_asks_all_has_no_join() -> None:
    assert {name_of(row) for row in OPERATIONS if row.join is not None} == OF_ALL.keys()


# Two halves and one whole


@pytest.mark.parametrize("user", TAGS)
@pytest.mark.parametrize("name", sorted(CASES.keys() - CHANGES))
def test_halves_answer_as_the_whole(halves: Halves, name: str, user: str) -> None:
    for fields in CASES[name]:
        whole = {**fields, "whole": True} if OF_ALL[name].gives == PAGES else fields
        halves.check(OF_ALL[name], whole, user)


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_change_of_halves_is_that_of_the_whole(name: str) -> None:
    for fields in CASES[name]:
        changed = Halves()
        if name == "connection.unset":
            changed.check(CONTROL["connection.set"], {**CASES["connection.set"][0], "connection": fields["connection"]})
        changed.check(OF_ALL[name], fields)
        for driver in (changed.whole, *changed.parts):
            while driver.run_turn():
                pass
        changed.check(CONTROL["settings.list"], {"everywhere": True})
        for kind in ("queues", "connections"):
            changed.check(CONTROL["list"], {"kind": kind, "everywhere": True})


def paths_in(row: object, before: str = "") -> Iterator[str]:
    """Yield the paths of all values of a row."""
    if isinstance(row, dict):
        for name, value in row.items():
            yield f"{before}{name}"
            yield from paths_in(value, f"{before}{name}.")


def sort_columns(rows: list[Row]) -> list[str]:
    """Return the columns of rows which are not each process's own."""
    columns = dict.fromkeys([path for row in rows for path in paths_in(row)])
    return [
        column for column in columns
        if not set(column.split(".")) & OWN.keys() and "con:N" not in str([field_at(row, column) for row in rows])
    ]  # fmt: skip


@pytest.mark.parametrize("name", sorted(WITHOUT_FIELDS))
def test_lists_of_halves_are_those_of_the_whole(halves: Halves, name: str) -> None:
    row, every = OF_ALL[name], {"whole": True}
    rows = halves.check(row, every)
    assert rows, "the scenario has none of these"
    columns = sort_columns(rows)
    for column in columns:
        for reverse in (False, True):
            halves.check(row, every | {"sort": [column], "reverse": reverse, "columns": [*columns[:2], column]})
    first, by_name = columns[0], [columns[0]] if name == NUMBERED else ["name"]
    for fields in (
        {"reverse": True},
        {"sort": by_name, "reverse": True},
        {"columns": [first]},
        {"columns": [first, "vhost"], "sort": [columns[-1]], "reverse": True},
    ):
        halves.check(row, every | fields)
    for page in range(1, 8):
        for sort in ([], [columns[-1]], by_name):
            for more in ({}, {"named": "o"}, {"named": "^[a-q].*[0-9]$", "regex": True}):
                fields = {"page": page, "page_size": 3, "sort": sort, "reverse": page % 2 == 0, **more}
                halves.check(row, every | fields)
    for user in TAGS:
        halves.check(row, every, user)
        halves.check(row, every | {"page": 2, "page_size": 2}, user)


OF_HOSTS = [kind.name for kind in KINDS if not kind.copied]


@pytest.mark.parametrize("kind", OF_HOSTS)
def test_pages_of_halves_are_those_of_the_whole(halves: Halves, kind: str) -> None:
    every: Row = {"kind": kind, "everywhere": True}
    column = sort_columns(halves.check(CONTROL["list"], every)["items"])[-1]
    for user in TAGS:
        for more in ({}, {"sort": [f"-{column}"]}, {"reverse": True}, {"named": "o"}, {"filters": [f"{column}!=1"]}):
            whole = halves.check(CONTROL["list"], every | more, user)
            if isinstance(whole, dict):
                assert differences(whole["items"], pages(halves, every | more, user)) == []
        halves.check(CONTROL["list"], every | {"page": 2, "page_size": 3}, user)


def pages(halves: Halves, fields: Row, user: str) -> list[Any]:
    """Return all items of the joined pages."""
    items: list[Any] = []
    after: object = 0
    while after is not None:
        page = comparable(
            joined_answer(halves.parts, CONTROL["list"], {**fields, "after": after, "count": 4}, user, "/"), OWN
        )
        assert isinstance(page, dict)
        assert len(page["items"]) <= 4
        items += page["items"]
        after = page["next"]
    return items


REFUSED: list[Row] = [
    {"page_size": 501, "page": 1},
    {"page_size": 0, "page": 2},
    {"columns": ["a"] * 257},
    {"sort": ["none"]},
    {"filters": ["none"]},
    {"kind": "none"},
]


@pytest.mark.parametrize("fields", REFUSED)
def test_list_that_is_refused_by_the_whole_is_refused_by_the_halves(halves: Halves, fields: Row) -> None:
    assert str(halves.check(CONTROL["list"], {"kind": "queues", "everywhere": True} | fields)).startswith("406")


def test_sections_of_halves_are_those_of_the_whole(halves: Halves) -> None:
    row, every = CONTROL["definitions.export"], {"everywhere": True}
    sections = halves.check(row, every)["sections"]
    for section in sections:
        whole = answer_of(halves.whole, row, {**every, "section": section}, "guest", "/")
        assert isinstance(whole, dict)
        assert whole["next"] is None
        items: list[Any] = []
        after: object = 0
        while after is not None:
            page = joined_answer(halves.parts, row, {**every, "section": section, "after": after}, "guest", "/")
            assert isinstance(page, dict)
            items += page["items"]
            after = page["next"]
        assert items == whole["items"], section


def test_records_of_halves_go_on_where_each_broker_is(halves: Halves) -> None:
    row = CONTROL["watch"]
    page = joined_answer(halves.parts, row, {"after": 0}, "ops", "/")
    assert isinstance(page, dict)
    assert page["next"] == [answer_of(each, row, {"after": 0}, "ops", "/")["next"] for each in halves.parts]
    following = joined_answer(halves.parts, row, {"after": page["next"]}, "ops", "/")
    assert following == {"items": [], "next": page["next"]}


def test_groups_of_halves_are_those_of_the_whole(halves: Halves) -> None:
    for more in ({}, {"state": "unread"}, {"state": "blocked"}, {"sort": ["-messages"]}, {"reverse": True}):
        fields = {"kind": "queues", "everywhere": True, "page": 1, "page_size": 3, "groups": True, **more}
        whole = halves.check(CONTROL["list"], fields)
        assert sum(whole["penstock"]["groups"].values()) > 0
        halves.check(CONTROL["list"], {**fields, "page": 2, "columns": ["name"]})


def test_plain_list_asks_brokers_from_the_place_of_the_last_page() -> None:
    kinds = {kind.name: kind for kind in KINDS}
    join = CONTROL["list"].join
    assert join is not None
    fields: Row = {"kind": "queues", "everywhere": True, "count": 7}
    for after, spread in ((0, [0, 0, 0]), (None, [0, 0, 0]), ([1, 40], [None, 40, 0]), ([2, 0], [None, None, 0])):
        requests = join.spread(Asked({**fields, "after": after}, 3, kinds))
        assert [None if each is None else each["after"] for each in requests] == spread
        assert all(each is None or each["count"] == 7 for each in requests)
    for wrong in ([3, 0], "x", [1], 5):
        with pytest.raises(PreconditionFailed, match="'after' must be the 'next' of the page before"):
            join.spread(Asked({**fields, "after": wrong}, 3, kinds))


def test_plain_list_goes_on_without_a_broker_that_is_missing() -> None:
    kinds = {kind.name: kind for kind in KINDS}
    join = CONTROL["list"].join
    assert join is not None
    asked = Asked({"kind": "queues", "everywhere": True, "count": 3}, 3, kinds)
    one: list[Row] = [{"name": "a"}, {"name": "b"}]
    assert join.join(asked, [{"items": one, "next": None}, None, {"items": one[:1], "next": None}]) == {
        "items": [*one, one[0]], "next": None,
    }  # fmt: skip
    assert join.join(asked, [{"items": one, "next": None}, {"items": one, "next": None}, None]) == {
        "items": one, "next": [1, 0],
    }  # fmt: skip
    assert join.join(asked, [None, {"items": one, "next": 9}, None]) == {"items": one, "next": [1, 9]}
    assert join.join(asked, [None, None, None]) == {"items": [], "next": None}


# Health checks


def test_check_of_several_fails_with_the_reason_of_the_one_that_fails() -> None:
    row = OF_ALL[ALARM_CHECKS]
    assert row.join is not None
    memory, disk = ({"node": "n", "resource": resource} for resource in ("memory", "disk"))
    failed = {"status": "failed", "reason": "There are alarms in effect", "alarms": [memory]}
    asked = Asked({}, 3, {})
    assert row.join.join(asked, [{"status": "ok"}, failed, {**failed, "alarms": [memory, disk]}]) == {
        **failed,
        "alarms": [memory, disk],
    }
    assert row.join.join(asked, [{"status": "ok"}, None, {"status": "ok"}]) == {"status": "ok"}


def test_check_of_connections_fails_at_the_sum() -> None:
    row = OF_ALL["GET /health/checks/below-node-connection-limit"]
    assert row.join is not None
    part = {"status": "ok", "current": 5, "limit": 10}
    joined = row.join.join(Asked({}, 2, {}), [part, part])
    assert joined == {"status": "failed", "reason": "connection limit reached", "current": 10, "limit": 10}
    assert row.join.join(Asked({}, 1, {}), [part]) == part


def test_health_of_several_has_each_reason_once() -> None:
    join = CONTROL["health"].join
    assert join is not None
    well: Row = {"status": "ok", "node": "n", "checks": [{"check": "disk", "status": "ok", "reason": None}]}
    ill: Row = {**well, "status": "failed", "checks": [{"check": "disk", "status": "failed", "reason": "full"}]}
    joined = join.join(Asked({}, 3, {}), [well, ill, ill])
    assert joined == {**ill, "reason": "disk failed"}
