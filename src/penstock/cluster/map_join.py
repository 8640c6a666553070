"""Join of flow maps: one map of those of several shards, for the console. Pure.

Ids in a map are those of objects in one process, so each gets the name of its shard. The map has as many queues as that
of one broker, the most relevant ones of all shards, and what leads to them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from penstock.describe.flow_map import BLOCKED_SHOWN, QUEUES_SHOWN, VHOSTS_SHOWN
from penstock.describe.table import Row, field_at
from penstock.management.alarms import order_of

ID_FIELDS: Final = ("id", "queue", "exchange", "gate", "gates")
"""Fields of a row that are ids, or lists of ids."""
SECTIONS: Final = ("queues", "readers", "exchanges", "routes", "edges", "gates", "producers")
"""Lists of a map whose rows have ids."""


def joined_map(maps: Mapping[str, Row]) -> Row:
    """Return one map of those of shards, by their names: a map without `at` and `node`."""
    rows = {section: [_named(shard, row) for shard, each in maps.items() for row in _rows(each, section)]
            for section in SECTIONS}  # fmt: skip
    hosts = [{**row, "shard": shard} for shard, each in maps.items() for row in _rows(each, "vhosts")]
    hosts.sort(key=lambda row: [_number(row, "blocked_producers"), _rate(row), _number(row, "queues")], reverse=True)
    totals = _sums([each["totals"] for each in maps.values()])
    queues = sorted(rows["queues"], key=_relevance, reverse=True)[:QUEUES_SHOWN]
    shown = {str(queue["id"]) for queue in queues}
    return {
        "seconds": max([_number(each, "seconds") for each in maps.values()], default=0),
        "totals": totals,
        "vhosts": hosts[:VHOSTS_SHOWN],
        "more_vhosts": sum([int(_number(each, "more_vhosts")) for each in maps.values()])
        + max(len(hosts) - VHOSTS_SHOWN, 0),
        "more_queues": max(int(_number(totals, "queues")) - len(queues), 0),
        **_around(rows, shown),
        "queues": queues,
        "more_exchanges": sum([int(_number(each, "more_exchanges")) for each in maps.values()]),
        "longest": _extreme(queues, "state.held.for_s", max),
        "nearest": _extreme(queues, "state.closes_in_s", min),
    }


def _around(rows: Mapping[str, list[Row]], shown: set[str]) -> Row:
    """Return what leads to the shown queues and away from them, and the producers that are blocked longest."""
    blocked = sorted([row for row in rows["producers"] if row["blocked"]], key=_blocked_s, reverse=True)
    stopped = {str(row["name"]) for row in blocked[:BLOCKED_SHOWN]}
    leads = [
        row for row in rows["edges"] if row["queue"] in shown or (row["queue"] is None and row["producer"] in stopped)
    ]
    routes = [row for row in rows["routes"] if row["queue"] in shown]
    names = stopped | {str(row["producer"]) for row in leads}
    exchanges = {row["exchange"] for row in [*leads, *routes]}
    return {
        "producers": [row for row in rows["producers"] if row["name"] in names],
        "gates": rows["gates"],
        "readers": [row for row in rows["readers"] if row["queue"] in shown],
        "exchanges": [row for row in rows["exchanges"] if row["id"] in exchanges or row["gates"]],
        "routes": routes,
        "edges": leads,
    }


def _named(shard: str, row: Row) -> Row:
    """Return a row whose ids have the name of the shard."""
    named = {field: _id(shard, row[field]) if field in ID_FIELDS else row[field] for field in row}
    if "blocked" in row and isinstance(row["blocked"], list):
        named["blocked"] = [_named(shard, each) for each in row["blocked"]]
    return named


def _id(shard: str, value: object) -> object:
    if isinstance(value, list):
        return [_id(shard, each) for each in value]
    return f"{shard}/{value}" if isinstance(value, str) else value


def _relevance(queue: Row) -> tuple[int, float, float]:
    """Return what is compared, as in the map of one broker: blocked queues, then the busiest, then the deepest."""
    is_blocked = field_at(queue, "state.group") == "blocked"
    return int(is_blocked), _rate(queue), _number(queue, "messages")


def _rate(row: Row) -> float:
    return _number(row, "in_rate") + _number(row, "out_rate")


def _blocked_s(producer: Row) -> float:
    return max([_number(row, "blocked_s") for row in _rows(producer, "blocked")], default=0.0)


def _extreme(queues: list[Row], path: str, choose: Callable[[list[float]], float]) -> str | None:
    """Return the id of the first queue whose number at a path is the least or the greatest; None if none has one."""
    found = [(value, str(queue["id"])) for queue in queues for value in [field_at(queue, path)]
             if isinstance(value, int | float)]  # fmt: skip
    if not found:
        return None
    wanted = choose([value for value, _ in found])
    return next(name for value, name in found if value == wanted)


def joined_node(own: Row, nodes: Mapping[str, Row], alarms_most: int) -> Row:
    """Return the node of a map: its own row, with jobs and alarms of all shards."""
    every = [own, *nodes.values()]
    alarms = [each["alarms"] for each in every if isinstance(each.get("alarms"), dict)]
    first = [row for each in alarms for row in _rows(each, "first")]
    first.sort(key=order_of)
    return {
        **own,
        "jobs": [row for each in every for row in _rows(each, "jobs")],
        "alarms": {"count": sum([int(_number(each, "count")) for each in alarms]), "first": first[:alarms_most]},
    }


def _rows(row: object, name: str) -> list[Row]:
    value = row.get(name) if isinstance(row, dict) else None
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _number(row: object, name: str) -> float:
    value = row.get(name) if isinstance(row, dict) else None
    return value if isinstance(value, int | float) else 0


def _sums(rows: list[object]) -> Row:
    names = dict.fromkeys([name for row in rows if isinstance(row, dict) for name in row])
    return {name: round(sum([_number(row, name) for row in rows]), 1) for name in names}
