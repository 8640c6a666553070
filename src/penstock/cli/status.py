"""Command `status`: the broker as a table of names, values and limits, then its queues and connections."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from penstock.cli.common import control_session, say, say_json
from penstock.cli.parameters import Json, Url, command
from penstock.cli.tables import COLUMN_COLOURS, table
from penstock.texts import counted, rounded_bytes, shown_age, shown_percent

SHOWN: Final = 20
"""Queues, and connections, that are shown; the others are counted."""
HEADS: Final = ("name", "value", "limit or cause")
QUEUE_HEADS: Final = ("queue", "state", "fill", "messages", "in/s", "out/s", "consumers", "cursors")
CONNECTION_HEADS: Final = ("connection", "state", "client", "channels", "held")
Row = tuple[str, str, str]


@command()
def status(as_json: Json, url: Url) -> None:
    """Show the broker with its limits, its queues by urgency, and its connections.

    For example: penstock status
    """
    with control_session(url) as control:
        answer = control.status()
    if as_json:
        say_json(answer, indent=2)
        return
    table(HEADS, list(rows_of(answer)))
    for each in answer["certificates"]:
        if each["warning"]:
            say(str(each["warning"]))
    queues = sorted(answer["queues"], key=_urgency)
    if queues:
        say("")
        table(QUEUE_HEADS, [_queue(each) for each in queues[:SHOWN]], COLUMN_COLOURS)
        _count_rest(answer["queue_count"] - len(queues[:SHOWN]), "queue", "queues")
    if answer["connections"]:
        say("")
        table(CONNECTION_HEADS, [_connection(each) for each in answer["connections"][:SHOWN]], COLUMN_COLOURS)
        _count_rest(answer["connection_count"] - len(answer["connections"][:SHOWN]), "connection", "connections")


def _count_rest(more: int, one: str, noun: str) -> None:
    if more > 0:
        say(f"and {counted(more, f'more {one}')}; `penstock {noun} list` lists all")


def rows_of(answer: dict[str, Any]) -> Iterator[Row]:
    """Yield what is known of the broker: name, value with its unit, and its limit or cause."""
    build = f" ({answer['build']})" if answer.get("build") else ""
    yield "version", f"{answer['version']}{build}", ""
    if answer.get("node"):
        yield "node", str(answer["node"]), ""
        yield "running for", shown_age(answer["uptime_s"]), ""
    yield "virtual host", str(answer["vhost"]), ""
    most = answer.get("connections_max")
    yield "connections", f"{answer['connection_count']:,}", "" if most is None else f"{most:,}"
    for name in ("queues", "exchanges", "bindings"):
        count = answer["queue_count"] if name == "queues" else answer.get(name)
        if count is not None:
            yield name, f"{count:,}", ""
    memory = answer.get("memory")
    if memory:
        yield "memory of messages", rounded_bytes(memory["used"]), _limit(memory["stop"], "at most")
    if answer.get("disk"):
        yield from _disk(answer["disk"])
    turns = answer["turns"]
    yield "longest turn lately", *_turn(turns["recent"])
    yield "longest turn", *_turn(turns["longest"])
    if answer["slowed"]:
        yield "slowed by their own work", ", ".join(answer["slowed"]), ""
    for each in answer["pools"]:
        if each["refused"] or each["taken"] * 2 > each["limit"]:
            yield _pool(each)


def _disk(disk: dict[str, Any]) -> Iterator[Row]:
    """Yield the store's disk usage, and its closed gates."""
    yield "store", rounded_bytes(disk["used"]), ""
    if disk["free"] is not None:
        yield "disk free", rounded_bytes(disk["free"]), _limit(disk.get("free_least"), "at least")
    for gate in disk["gates"]:
        if not gate["open"]:
            yield f"gate {gate['name']}", "closed", str(gate["cause"])


def _limit(octets: int | None, side: str) -> str:
    return "" if octets is None else f"{side} {rounded_bytes(octets)}"


def _turn(turn: dict[str, Any]) -> tuple[str, str]:
    whose = f"{turn['connection_work']:,} of {turn['work']:,} units of work for {turn['connection']}"
    return f"{turn['ms']:.1f} ms", whose if turn["connection"] else ""


def _pool(each: dict[str, Any]) -> Row:
    """Return a pool that is half used, or has refused something."""
    holders = [f"{held['user'] or held['vhost']} {held['units']:,}" for held in each["holders"]]
    most = f", most: {', '.join(holders)}" if holders else ""
    refused = f", {counted(each['refused'], 'request')} refused" if each["refused"] else ""
    return f"pool of {each['name']}", f"{each['taken']:,} {each['unit']}{most}{refused}", f"{each['limit']:,}"


def _urgency(each: dict[str, Any]) -> tuple[int, int]:
    return each["state"]["rank"], -each["depth"]["messages"]


def _queue(each: dict[str, Any]) -> tuple[str, ...]:
    rates = each["rates"]
    return (
        each["queue"],
        each["state"]["text"],
        shown_percent(each["fill_percent"]),
        f"{each['depth']['messages']:,}",
        f"{rates['publish']:,.1f}",
        f"{rates['deliver_get']:,.1f}",
        f"{each['consumers']:,}",
        ", ".join(each["cursors"]) or "-",
    )


def _connection(each: dict[str, Any]) -> tuple[str, ...]:
    state = "blocked" if each["blocked"] else each["state"]
    held = each["held"]["messages"]
    return each["label"], state, each["product"] or "-", f"{each['channels']:,}", f"{held:,}"
