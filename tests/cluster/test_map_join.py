"""Join of flow maps: ids of two processes, sums, the most relevant queues, and what leads to them."""

from __future__ import annotations

import json
from typing import Any

from penstock.cluster.map_join import joined_map, joined_node
from penstock.describe.flow_map import QUEUES_SHOWN, VHOSTS_SHOWN, FlowMap
from tests.support.halves import HOSTS, Scene

IDS = {"routes": ("exchange", "queue"), "edges": ("exchange", "queue"), "readers": ("queue",), "queues": ("gate",)}


def maps() -> dict[str, Any]:
    """Return the second map of two brokers with a virtual host each."""
    found = {}
    for shard, host in enumerate(HOSTS, 1):
        driver = Scene([host]).driver
        flow_map = FlowMap(driver, None, True)
        for _ in range(2):
            driver.begin(driver.broker.now + 2)
            steps = flow_map.steps()
            while True:
                try:
                    next(steps)
                except StopIteration as end:
                    found[str(shard)] = json.loads(json.dumps(end.value))
                    break
    return found


def queue(name: str, group: str = "moving", rate: float = 0.0, **more: Any) -> dict[str, Any]:
    state = {"group": group, "held": None, "closes_in_s": None, **more}
    return {"id": f"q{name}", "name": name, "vhost": "/", "gate": "g1", "gates": ["g1"], "in_rate": rate,
            "out_rate": 0.0, "messages": 1, "state": state}  # fmt: skip


def a_map(*queues: dict[str, Any], **more: Any) -> dict[str, Any]:
    lists = {name: [] for name in ("readers", "exchanges", "routes", "edges", "gates", "producers", "vhosts")}
    totals = {"queues": len(queues), "in_rate": 0.1}
    return {
        "seconds": 2.0,
        "totals": totals,
        "queues": [*queues],
        "more_exchanges": 0,
        "more_vhosts": 0,
        **lists,
        **more,
    }


def test_ids_of_two_processes_differ_and_lead_to_rows() -> None:
    both = maps()
    joined = joined_map(both)
    ids = {section: [row["id"] for row in joined[section]] for section in ("queues", "exchanges", "gates", "readers")}
    for section, names in ids.items():
        assert names
        assert len(set(names)) == len(names), section
    known = {name for names in ids.values() for name in names}
    producers = {row["name"] for row in joined["producers"]}
    for section, fields in IDS.items():
        for row in joined[section]:
            for field in fields:
                assert row[field] is None or row[field] in known, (section, row)
    assert {row["producer"] for row in joined["edges"]} <= producers
    assert any(row["blocked"] for row in joined["producers"])
    assert {block["gate"] for row in joined["producers"] for block in row["blocked"]} <= known
    assert joined["longest"] in ids["queues"]


def test_sums_are_those_of_all_shards_and_virtual_hosts_name_theirs() -> None:
    both = maps()
    joined = joined_map(both)
    for name, value in joined["totals"].items():
        assert value == round(sum(each["totals"][name] for each in both.values()), 1), name
    assert {row["name"]: row["shard"] for row in joined["vhosts"]} == dict(zip(HOSTS, ("1", "2"), strict=True))
    assert joined["more_queues"] == joined["totals"]["queues"] - len(joined["queues"])
    assert joined.keys() | {"shards"} >= both["1"].keys()


def test_map_has_the_most_relevant_queues_of_all_shards() -> None:
    first = [queue(f"a{number}", rate=number) for number in range(QUEUES_SHOWN)]
    second = [queue("still", "blocked"), queue("idle"), queue("fast", rate=1000)]
    joined = joined_map({"1": a_map(*first), "2": a_map(*second)})
    names = [each["name"] for each in joined["queues"]]
    assert names[:3] == ["still", "fast", f"a{QUEUES_SHOWN - 1}"]
    assert len(names) == QUEUES_SHOWN
    assert "idle" not in names
    assert joined["more_queues"] == 3
    assert joined["totals"]["in_rate"] == 0.2


def test_longest_and_nearest_are_those_of_all_shards() -> None:
    first = a_map(queue("a", held={"for_s": 5}), queue("b", closes_in_s=9))
    second = a_map(queue("c", held={"for_s": 7}), queue("d", closes_in_s=4))
    joined = joined_map({"1": first, "2": second})
    assert (joined["longest"], joined["nearest"]) == ("2/qc", "2/qd")
    none = joined_map({"1": a_map(queue("a"))})
    assert (none["longest"], none["nearest"]) == (None, None)


def test_rows_that_lead_to_no_shown_queue_are_left_out() -> None:
    many = [queue(f"a{number}", rate=10) for number in range(QUEUES_SHOWN)]
    routes = [{"exchange": "x1", "queue": "qslow", "rate": 1}]
    edges = [{"producer": "p", "exchange": "x1", "queue": "qslow", "rate": 1}]
    producers = [{"name": "p", "blocked": []}]
    slow = a_map(queue("slow"), routes=routes, edges=edges, producers=producers,
                 exchanges=[{"id": "x1", "gates": []}], readers=[{"id": "c1", "queue": "qslow"}])  # fmt: skip
    joined = joined_map({"1": a_map(*many), "2": slow})
    for section in ("routes", "edges", "producers", "exchanges", "readers"):
        assert joined[section] == [], section


def test_virtual_hosts_beyond_the_bound_are_counted() -> None:
    rows = [
        {"name": f"t{number}", "blocked_producers": 0, "in_rate": 0, "out_rate": 0, "queues": 0} for number in range(20)
    ]
    joined = joined_map({"1": a_map(vhosts=rows), "2": a_map(vhosts=[*rows, {**rows[0], "blocked_producers": 1}])})
    assert len(joined["vhosts"]) == VHOSTS_SHOWN
    assert joined["more_vhosts"] == 41 - VHOSTS_SHOWN
    assert (joined["vhosts"][0]["name"], joined["vhosts"][0]["shard"]) == ("t0", "2")


def test_map_without_shards_is_empty() -> None:
    joined = joined_map({})
    assert (joined["seconds"], joined["queues"], joined["totals"], joined["more_queues"]) == (0, [], {}, 0)


def test_node_of_a_map_has_jobs_and_alarms_of_all() -> None:
    alarm = {"severity": "warning", "since": 2, "vhost": None, "kind": "gate", "subject": "q"}
    critical = {**alarm, "severity": "critical", "since": 3}
    own = {"name": "n", "jobs": [], "alarms": {"count": 0, "first": []}}
    first = {"name": "n", "jobs": [{"id": 1}], "alarms": {"count": 5, "first": [alarm, {**alarm, "since": 1}]}}
    second = {"name": "n", "jobs": [{"id": 1001}], "alarms": {"count": 1, "first": [critical]}}
    joined = joined_node(own, {"1": first, "2": second}, 2)
    assert [each["id"] for each in joined["jobs"]] == [1, 1001]
    assert joined["alarms"]["count"] == 6
    assert [each["since"] for each in joined["alarms"]["first"]] == [3, 1]
