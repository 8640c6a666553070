"""`penstock status`: a table of values and limits, and tables of queues and connections."""

from __future__ import annotations

import re
from typing import Any

from penstock.cli.status import rows_of
from tests.support.brokers import BrokerProcess, eventually
from tests.support.commands import run, started, told
from tests.support.terminals import in_terminal


def table_of(text: str) -> dict[str, list[str]]:
    """Return the lines of the first table by their names."""
    lines = [re.split(" {2,}", line.rstrip()) for line in text.split("\n\n")[0].splitlines()]
    return {line[0]: line[1:] for line in lines}


def test_status_is_a_table_with_units_and_limits(own_broker: BrokerProcess) -> None:
    run(own_broker, "queues", "declare", "orders", "capacity-messages=9")
    found = table_of(run(own_broker, "status"))
    assert found["name"] == ["value", "limit or cause"]
    assert found["connections"] == ["1"]
    assert found["queues"] == ["1"]
    assert found["virtual host"] == ["/"]
    assert re.fullmatch(r"[\d.]+ [KMG]?i?B", found["memory of messages"][0])
    assert re.fullmatch(r"at most [\d.]+ [MG]iB", found["memory of messages"][1])
    assert re.fullmatch(r"[\d.]+ (s|min .*)", found["running for"][0])
    assert found["longest turn"][0].endswith(" ms")


def test_status_lists_queues_by_urgency_and_connections(own_broker: BrokerProcess) -> None:
    for name in ("calm", "unread", "full"):
        run(own_broker, "queues", "declare", name, "capacity-messages=4", "hold-deadline=0")
    run(own_broker, "queues", "publish", "unread", "x")
    with started(own_broker, "queues", "publish", "full", *"abcdef") as process:
        eventually(lambda: "is blocked" in own_broker.why("full"), "its publisher is blocked")
        _, queues, connections = run(own_broker, "status").split("\n\n")
        lines = queues.splitlines()
        assert [line.split()[0] for line in lines[:4]] == ["queue", "full", "unread", "calm"]
        assert re.search(r"closed [\d.]+ s · 1 waiting +100 % +4 ", lines[1])
        assert "no consumer" in lines[2]
        assert re.search(r"^con:\d+\(guest@.* blocked +penstock-cli", connections, re.MULTILINE)
        process.kill()


def test_status_counts_further_queues_and_fits_into_80_columns(own_broker: BrokerProcess) -> None:
    for number in range(23):
        run(own_broker, "queues", "declare", f"a-queue-with-a-long-name-of-sixty-characters-{number:016}")
    text = run(own_broker, "status")
    assert "and 3 more queues; `penstock queues list` lists all" in text
    with in_terminal("status", "--url", own_broker.url, columns=80, lines=60) as terminal:
        assert terminal.ended() == 0
        lines = [line.rstrip() for line in terminal.screen.display]
        assert sum(line.startswith("a-queue-with-a-long-name") for line in lines) == 20
        assert all("…" in line for line in lines if line.startswith("a-queue")), "names are cut"
    assert told(own_broker, "status")["queue_count"] == 23


def test_status_of_a_store_has_the_disk_and_its_closed_gates() -> None:
    answer: dict[str, Any] = {
        "version": "0.1.0", "vhost": "/", "connection_count": 3, "connections_max": 100, "queue_count": 2,
        "turns": {
            "recent": {"ms": 1.0, "connection": "", "connection_work": 0, "work": 0},
            "longest": {"ms": 9.0, "connection": "con:2", "connection_work": 5, "work": 7},
        },
        "slowed": ["con:4"],
        "disk": {
            "used": 2048,
            "free": 4096,
            "free_least": 1024,
            "gates": [{"name": "room", "open": False, "cause": "the disk is full"}, {"name": "store", "open": True}],
        },
        "pools": [
            {"name": "lanes", "taken": 60, "limit": 100, "unit": "lanes", "refused": 2, "holders": [
                {"user": "anna", "vhost": "/", "units": 50}]},
            {"name": "others", "taken": 1, "limit": 100, "unit": "others", "refused": 0, "holders": []},
        ],
    }  # fmt: skip
    rows = {row[0]: row[1:] for row in rows_of(answer)}
    assert rows["connections"] == ("3", "100")
    assert rows["store"] == ("2.0 KiB", "")
    assert rows["disk free"] == ("4.0 KiB", "at least 1.0 KiB")
    assert rows["gate room"] == ("closed", "the disk is full")
    assert rows["longest turn"] == ("9.0 ms", "5 of 7 units of work for con:2")
    assert rows["slowed by their own work"] == ("con:4", "")
    assert rows["pool of lanes"] == ("60 lanes, most: anna 50, 2 requests refused", "100")
    assert not {"pool of others", "gate store", "memory of messages", "node"} & rows.keys()
