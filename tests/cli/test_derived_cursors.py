"""Cursor commands."""

from __future__ import annotations

import re

import pytest

from penstock.sync import connect
from tests.support.brokers import BrokerProcess, eventually
from tests.support.commands import run, told
from tests.support.raw_channel import Connection


def test_cursor_is_shown_moved_and_deleted(broker: BrokerProcess, name: str) -> None:
    run(broker, "declare", "queue", name)
    run(broker, "publish", name, "one", "two", "three")
    with connect(broker.url, protocol="amqp091") as control:
        control.plan_batch(name, control.attach_cursor(name, [name]).token, {name: 0}, rows=2)
        assert re.search(r"is in use by con:\d+", run(broker, "cursor", "move", name, "latest", code=1))
        assert f"cursor {name}: read by con:" in run(broker, "cursor", "show", name)
    first, read, idle, heads, row = run(broker, "cursor", "show", name).splitlines()
    assert re.fullmatch(rf"cursor {name}: last read by con:\d+\(guest@[^ ]+\); \d+\.\d s ago", first)
    assert read == "read since the start: 0 messages in 0 blocks"
    never = r"it never expires \(cursor-expires is not set\)"
    assert re.fullmatch(rf"nobody has been attached for \d+\.\d s; {never}", idle)
    assert heads.split() == ["queue", "settled", "planned", "end", "lag", "bytes", "oldest", "blocks"]
    assert row.split()[:5] == [name, "0", "2", "3", "3"]
    assert told(broker, "cursor", "show", name)["lag"]["messages"] == 3
    dry = run(broker, "cursor", "move", name, f"{name}=2", "--dry-run")
    assert re.fullmatch(
        rf"cursor {name}, queue {name}: from 0 to 2: 2 messages \(\d+ bytes\) would be passed over, and 2 of them "
        r"would leave the queue\n",
        dry,
    )
    assert told(broker, "cursor", "move", name, f"{name}=2")["queues"][0]["leaving"] == 2
    assert "the messages of queue" in run(broker, "cursor", "move", name, f"{name}=1", code=1)
    assert run(broker, "cursor", "delete", name) == f"cursor {name} is deleted\n"
    assert "no cursor" in run(broker, "cursor", "show", name, code=1)
    assert run(broker, "get", name, "--ack") == "three\n"


def test_queue_that_a_cursor_left_is_reported_and_released(broker: BrokerProcess, name: str) -> None:
    other = f"{name}-other"
    for queue in (name, other):
        run(broker, "declare", "queue", queue)
        run(broker, "publish", queue, "one")
    with connect(broker.url, protocol="amqp091") as control:
        control.attach_cursor(name, [name, other])
        control.attach_cursor(name, [name])
    assert f"`penstock cursors release {name} {other}`" in run(broker, "cursor", "show", name)
    assert f"waits for cursor {name}, which has left it" in run(broker, "why", other)
    assert f"still subscribes to queue '{name}'" in run(broker, "cursor", "release", name, name, code=1)
    assert "no longer keeps the messages" in run(broker, "cursor", "release", name, other)
    assert f"does not read queue '{other}'" in run(broker, "cursor", "release", name, other, code=1)
    assert run(broker, "get", other, "--ack") == "one\n"


def test_invalid_place_is_refused_in_one_sentence(broker: BrokerProcess, name: str) -> None:
    for words in (("newest",), ("5",), ("=5",), ("earliest", f"{name}=1")):
        assert "is no place: write earliest, latest or QUEUE=SEQUENCE" in run(
            broker, "cursor", "move", name, *words, code=1
        )
    assert "is given twice" in run(broker, "cursor", "move", name, "q=1", "q=2", code=1)


def test_why_of_a_queue_names_the_cursor_that_holds_producers_back(broker: BrokerProcess, name: str) -> None:
    run(broker, "declare", "queue", name, "capacity-messages=2", "hold-deadline=0")
    with Connection(broker.url) as connection, connect(broker.url, protocol="amqp091") as control:
        control.attach_cursor(name, [name])
        channel = connection.channel()
        for _ in range(3):
            channel.publish(b"x", routing_key=name)
        eventually(lambda: told(broker, "why", name)["gate"]["blocked"] == 1, "a publisher that is held")
        text = run(broker, "why", name)
        assert re.search(
            rf"queue {name} waits for cursor {name} of user guest, which has settled up to 0 of 2, has 0 planned "
            r"and asked last \d+\.\d s ago by con:\d+\([^ ]+\); it holds back 1 producer\n",
            text,
        )
        assert told(broker, "cursor", "show", name)["blocks"] == 1
        assert re.search(rf"queue {name} blocks .* for \d+\.\d s", run(broker, "cursor", "show", name))


def test_idle_cursor_shows_since_when_nobody_is_attached_and_when_it_expires(broker: BrokerProcess, name: str) -> None:
    run(broker, "queues", "declare", name, "capacity-messages=2", "cursor-expires=1h")
    with connect(broker.url, protocol="amqp091") as control:
        control.attach_cursor(name, [name])
        assert "its reader is attached; it expires 3,600.0 s after its reader has gone" in run(
            broker, "cursors", "show", name
        )
        (row,) = [line for line in run(broker, "cursors", "list").splitlines() if line.startswith(f"{name} ")]
        assert re.split(" {2,}", row)[-2:] == ["-", "3600.0 s"]
    run(broker, "queues", "publish", name, "one")
    ends = r"it expires in 3,\d{3}\.\d s \(cursor-expires"
    idle = r"nobody has been attached for \d+\.\d s"
    eventually(lambda: told(broker, "cursors", "show", name)["idle_s"] is not None, "the connection has ended")
    assert re.search(rf"{idle}; {ends}\)", run(broker, "cursors", "show", name))
    assert re.search(
        rf"waits for cursor {name} of user guest, which .* which has ended; {idle}, and {ends}=3600\)",
        run(broker, "why", name),
    )
    (row,) = [line for line in run(broker, "cursors", "list").splitlines() if line.startswith(f"{name} ")]
    assert re.fullmatch(r"\d+\.\d s ago", re.split(" {2,}", row)[-2])
    (view,) = told(broker, "why", name)["waits_for"]
    assert view["user"] == "guest"
    assert view["idle_s"] + view["expires_in_s"] == pytest.approx(3600)


def test_cursor_is_created_before_its_reader_comes(broker: BrokerProcess, name: str) -> None:
    other = f"{name}-other"
    for queue in (name, other):
        run(broker, "declare", "queue", queue)
        run(broker, "publish", queue, "one", "two")
    made = run(broker, "cursor", "create", name, name, other, "--at", f"{name}=1")
    assert made == f"cursor {name} begins after 1 on queue {name}\ncursor {name} begins after 0 on queue {other}\n"
    assert told(broker, "cursor", "show", name)["reader"] is None
    assert f"cursor '{name}' exists" in run(broker, "cursor", "create", name, name, code=1)
    assert told(broker, "cursor", "create", other, other, "--at", "latest")["queues"] == {other: 2}
    assert "offsets 0 to 2" in run(broker, "cursor", "create", f"{name}-x", other, "--at", f"{other}=9", code=1)
    assert "is no place" in run(broker, "cursor", "create", f"{name}-x", other, "--at", "newest", code=1)
    with connect(broker.url, protocol="amqp091") as control:
        assert control.attach_cursor(name, [name, other]).initial == {name: 1, other: 0}


def test_leases_and_queries_that_publish_are_listed_and_ended(broker: BrokerProcess, name: str) -> None:
    run(broker, "declare", "queue", name)
    run(broker, "publish", name, "one", "two")
    batch = {"query": name, "batch": 3, "run": "", "write": "w", "exchange": "", "routing_key": name}
    with connect(broker.url, protocol="amqp091") as control:
        number = control.request("lease.open", queues=[name])["lease"]
        control.request("sink.begin", **batch, delivery="dedup", partition=0, attempt=0)
    heads, *rows = run(broker, "leases", "list").splitlines()
    assert heads.split()[:5] == ["lease", "user", "query", "client", "ranges"]
    (row,) = [row for row in rows if f"{name} 1-2" in row]
    assert row.split()[:2] == [str(number), "guest"]
    assert f"lease {number} of con:" in run(broker, "why", name)
    assert run(broker, "leases", "end", str(number)) == f"lease {number} is ended\n"
    assert f"lease {number} has ended" in run(broker, "leases", "end", str(number), code=1)
    (row,) = [row for row in run(broker, "sinks", "list").splitlines() if row.startswith(name)]
    assert row.split()[1] == "guest"
    assert run(broker, "sinks", "end", name) == f"query {name} is ended at 1 target; 0 staged messages dropped\n"
    assert "has published batches" in run(broker, "sinks", "end", name, code=1)
