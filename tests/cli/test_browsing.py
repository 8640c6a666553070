"""`messages browse`, and the way of messages through JSON lines: with pika, Proton and the commands themselves."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pika
import pytest

from penstock.sync import connect
from tests.support.brokers import PATIENCE, BrokerProcess, penstock_command, serving
from tests.support.commands import run, started
from tests.support.pika_helpers import channel_of

HEADERS: dict[str, Any] = {
    "text": "grüße",
    "raw": b"\xff\x00",
    "whole": 1 << 40,
    "yes": True,
    "nothing": None,
    "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    "price": Decimal("12.50"),
    "list": [1, "a", {"x": [2]}],
    "table": {"inner": {"deep": 1}},
    "tagged": {"$binary": "a text"},
    "x-own": "annotation",
}
PROPERTIES = pika.BasicProperties(
    content_type="application/json", headers=HEADERS, delivery_mode=2, priority=3, correlation_id="c", reply_to="r",
    expiration="600000", message_id="m", timestamp=1_700_000_000, type="t", app_id="a",
)  # fmt: skip


def browsed(broker: BrokerProcess, queue: str, *words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(broker, "messages", "browse", queue, "--json", *words).splitlines()]


def test_messages_are_shown_in_a_table_and_stay(broker: BrokerProcess, name: str) -> None:
    run(broker, "queues", "declare", name)
    run(broker, "queues", "publish", name, "one", "x" * 70, "--header", "n=1")
    heads, first, second = run(broker, "messages", "browse", name).splitlines()
    assert heads.split() == ["position", "state", "age", "size", "exchange", "routing", "key", "holder", "body"]
    assert (first.split()[:2], first.split()[-2:]) == (["1", "ready"], [name, "one"])
    assert second.endswith(" " + "x" * 60 + "…")
    assert broker.queue(name)["unacknowledged"]["messages"] == 0
    assert [row["redelivered"] for row in browsed(broker, name)] == [False, False]
    done = penstock_command("messages", "browse", name, "--limit", "1", "--url", broker.url)
    assert (done.returncode, done.stderr) == (0, "more messages follow: --from 2\n")
    assert [row["position"] for row in browsed(broker, name, "--from", "2")] == [2]
    assert [row["position"] for row in browsed(broker, name, "--filter", "n = 1")] == [1, 2]
    none = penstock_command("messages", "browse", name, "--filter", "n = 2", "--url", broker.url)
    assert (none.returncode, none.stderr) == (0, f"queue '{name}' has no matching message\n")
    none = penstock_command("messages", "browse", name, "--from", "3", "--url", broker.url)
    assert (none.returncode, none.stderr) == (0, f"queue '{name}' has no message from position 3 on\n")


def test_delivered_message_is_shown_with_its_consumer(broker: BrokerProcess, name: str) -> None:
    run(broker, "queues", "declare", name)
    run(broker, "queues", "publish", name, "one", "two")
    with channel_of(broker) as channel:
        channel.basic_qos(prefetch_count=1)
        got: list[bytes] = []
        channel.basic_consume(name, lambda _, method, properties, body: got.append(body), consumer_tag="worker")
        while not got:
            channel.connection.process_data_events(time_limit=0.1)
        first, second = browsed(broker, name)
    assert (first["state"], first["consumer"], second["state"]) == ("unacked", "worker", "ready")
    assert first["holder"].startswith("con:")
    assert [row["redelivered"] for row in browsed(broker, name)] == [True, False], "the consumer has ended"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--filter", "n >"], "the selector is not valid at character 4"),
        (["--limit", "0"], "--limit"),
        (["--from", "x"], "--from"),
        (["--whole"], "--whole is for --json without --truncate"),
        (["--whole", "--json", "--truncate", "5"], "--whole is for --json without --truncate"),
    ],
)
def test_invalid_option_is_refused(broker: BrokerProcess, name: str, words: list[str], sentence: str) -> None:
    run(broker, "queues", "declare", name)
    done = penstock_command("messages", "browse", name, *words, "--url", broker.url)
    assert done.returncode in (1, 2)
    assert sentence in done.stderr


def test_unknown_queue_is_refused_with_a_near_match(broker: BrokerProcess, name: str) -> None:
    run(broker, "queues", "declare", name)
    assert f"did you mean '{name}'?" in run(broker, "messages", "browse", f"{name}x", code=1)


@pytest.mark.parametrize("way", ["browse", "consume"])
def test_properties_and_headers_of_pika_come_back_unchanged(
    broker: BrokerProcess, name: str, tmp_path: Path, way: str
) -> None:
    file = tmp_path / "messages.jsonl"
    with channel_of(broker, confirms=True) as channel:
        channel.queue_declare(name)
        channel.basic_publish("", name, b"\xff body", PROPERTIES)
        channel.basic_publish("", name, "grüße\n".encode(), pika.BasicProperties())
        if way == "browse":
            file.write_text(run(broker, "messages", "browse", name, "--json"))
        else:
            file.write_text(run(broker, "queues", "consume", name, "--json", "--count", "2"))
        channel.queue_purge(name)
        answer = json.loads(run(broker, "queues", "publish", name, "--json", "--file", str(file)))
        assert answer == {"published": 2, "confirmed": 2, "refused": 0, "unroutable": 0}
        channel.queue_declare(f"{name}-as-it-was")
        channel.basic_publish("", f"{name}-as-it-was", b"\xff body", PROPERTIES)
        _, expected, _ = channel.basic_get(f"{name}-as-it-was", auto_ack=True)
        _, properties, body = channel.basic_get(name, auto_ack=True)
        assert (properties, body) == (expected, b"\xff body")
        assert list(map(type, properties.headers.values())) == list(map(type, expected.headers.values()))
        _, properties, body = channel.basic_get(name, auto_ack=True)
        assert (properties, body) == (pika.BasicProperties(), "grüße\n".encode())


@pytest.mark.parametrize(("inferred", "payload"), [(True, "body"), (False, "AFN3oARib2R5")], ids=["data", "value"])
def test_annotations_of_amqp10_come_back_unchanged(
    broker: BrokerProcess, name: str, tmp_path: Path, inferred: bool, payload: str
) -> None:
    proton = pytest.importorskip("proton")
    utils = pytest.importorskip("proton.utils")
    run(broker, "queues", "declare", name)
    connection = utils.BlockingConnection(broker.url, timeout=PATIENCE)
    try:
        given = proton.Message(
            body=b"body", id="m", correlation_id="c", content_type="text/plain", properties={"n": 1, "s": "t"},
            annotations={proton.symbol("x-opt-own"): "annotation", proton.symbol("x-opt-list"): [1, "a"]},
        )  # fmt: skip
        given.inferred = inferred
        connection.create_sender(f"/queues/{name}").send(given)
        (row,) = browsed(broker, name)
        assert (row["format"], row["payload"]) == ("AMQP 1.0", payload)
        assert row["properties"]["headers"] == {"n": 1, "s": "t", "x-opt-own": "annotation", "x-opt-list": [1, "a"]}
        file = tmp_path / "messages.jsonl"
        file.write_text(json.dumps(row))
        run(broker, "queues", "purge", name)
        run(broker, "queues", "publish", name, "--json", "--file", str(file))
        found = connection.create_receiver(f"/queues/{name}", credit=1).receive(PATIENCE)
        for key in ("id", "correlation_id", "content_type", "properties"):
            assert getattr(found, key) == getattr(given, key), key
        assert bytes(found.body) == b"body"
        for key, value in given.annotations.items():
            assert found.annotations[key] == value
    finally:
        connection.close()


def test_dead_letter_keeps_its_deaths_through_a_file(broker: BrokerProcess, name: str, tmp_path: Path) -> None:
    run(broker, "queues", "declare", f"{name}-dead")
    run(broker, "queues", "declare", name, "x-dead-letter-exchange=", f"x-dead-letter-routing-key={name}-dead")
    with connect(broker.url) as connection:
        connection.publisher(routing_key=name).send(b"order")
        with connection.receiver(name) as receiver:
            delivery = receiver.receive(PATIENCE)
            assert delivery is not None
            delivery.reject()
    (row,) = browsed(broker, f"{name}-dead")
    (death,) = row["properties"]["headers"]["x-death"]
    assert (death["queue"], death["reason"], list(death["time"])) == (name, "rejected", ["$timestamp"])
    file = tmp_path / "dead.jsonl"
    file.write_text(json.dumps(row))
    run(broker, "queues", "publish", name, "--json", "--file", str(file))
    (again,) = browsed(broker, name)
    assert again["properties"]["headers"]["x-death"] == [death]


def test_messages_go_back_to_their_origin_on_request(broker: BrokerProcess, name: str, tmp_path: Path) -> None:
    for queue in (f"{name}.a", f"{name}.b"):
        run(broker, "queues", "declare", queue)
    file = tmp_path / "messages.jsonl"
    lines = [
        {"payload": "1", "routing_key": f"{name}.a"},
        {"payload": "2", "routing_key": f"{name}.b"},
        {"payload": "3"},
    ]
    file.write_text("\n".join(map(json.dumps, lines)))
    run(broker, "queues", "publish", f"{name}.b", "--json", "--to-origin", "--file", str(file))
    assert run(broker, "queues", "consume", f"{name}.a", "--ack", "--count", "1") == "1\n"
    assert run(broker, "queues", "consume", f"{name}.b", "--ack", "--count", "2") == "2\n3\n"
    assert "--to-origin is for messages of --json" in run(broker, "queues", "publish", name, "x", "--to-origin", code=1)
    with_header = ("queues", "publish", name, "--json", "--header", "a=1", "--file", str(file))
    assert "leave --whole, --content-type, --header and --delay out" in run(broker, *with_header, code=1)


def test_file_cut_in_a_line_publishes_and_counts_the_messages_before(
    broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    run(broker, "queues", "declare", name)
    file = tmp_path / "messages.jsonl"
    lines = [json.dumps({"payload": f"{number}"}) for number in range(2_000)]
    file.write_text("\n".join(lines)[:-5])
    assert run(broker, "queues", "publish", name, "--json", "--file", str(file), code=1) == (
        "penstock: line 2,000 cannot be published: the line is not JSON: Unterminated string starting at (character 13)"
        "; 1,999 messages before the line are published and confirmed\n"
    )
    assert broker.depth(name) == 1999


def test_held_publish_of_lines_waits_and_its_progress_says_why(
    broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    run(broker, "queues", "declare", name, "capacity-messages=2", "hold-deadline=0")
    file = tmp_path / "messages.jsonl"
    file.write_text("\n".join(json.dumps({"payload": f"{number}"}) for number in range(4)))
    with started(broker, "queues", "publish", name, "--json", "--progress", "--file", str(file)) as process:
        assert process.stderr.readline().startswith(f"penstock: waiting: queue {name}: 2 messages > stop 1")
        assert process.stderr.readline().startswith(f"penstock: 3 published, 2 confirmed, waiting: queue {name}: 2 ")
        assert run(broker, "queues", "get", name, "--ack", "--count", "2") == "0\n1\n"
        assert run(broker, "queues", "consume", name, "--ack", "--count", "2") == "2\n3\n"
        assert process.wait(PATIENCE) == 0
        assert json.loads(process.stdout.read())["confirmed"] == 4


def test_large_body_is_truncated_and_refused_by_publish(broker: BrokerProcess, name: str, tmp_path: Path) -> None:
    run(broker, "queues", "declare", name)
    body = tmp_path / "body"
    body.write_bytes(b"a" * (3 << 20))
    run(broker, "queues", "publish", name, "--whole", "--file", str(body))
    run(broker, "queues", "publish", name, "small")
    done = penstock_command("messages", "browse", name, "--json", "--url", broker.url)
    first, second = map(json.loads, done.stdout.splitlines())
    assert (len(first["payload"]), first["payload_bytes"], first["truncated"]) == (1 << 20, 3 << 20, True)
    assert second["payload"] == "small"
    assert done.stderr == "1 body is truncated: with --json --whole, whole bodies are printed\n"
    file = tmp_path / "messages.jsonl"
    file.write_text(done.stdout)
    said = run(broker, "queues", "publish", name, "--json", "--file", str(file), code=1)
    assert said.startswith("penstock: line 1 cannot be published: the payload is truncated")
    file.write_text(run(broker, "queues", "consume", name, "--json", "--count", "2", "--ack"))
    run(broker, "queues", "publish", name, "--json", "--file", str(file))
    assert [len(row["payload"]) for row in browsed(broker, name, "--truncate", "100")] == [100, 5]


def test_positions_of_a_stream_are_its_offsets(tmp_path: Path, store: tuple[str, str]) -> None:
    with serving(tmp_path, *store) as broker:
        run(broker, "queues", "declare", "s", "x-queue-type=stream")
        for number in range(4):
            run(broker, "queues", "publish", "s", f"m{number}", "--persistent")
        rows = browsed(broker, "s")
        assert [(row["position"], row["payload"]) for row in rows] == [(at, f"m{at}") for at in range(4)]
        assert [row["payload"] for row in browsed(broker, "s", "--from", "2")] == ["m2", "m3"]
        done = penstock_command("messages", "browse", "s", "--limit", "1", "--from", "1", "--url", broker.url)
        assert done.stderr == "more messages follow: --from 2\n"
        with channel_of(broker) as channel:
            channel.basic_qos(prefetch_count=9)
            offsets: list[int] = []
            channel.basic_consume(
                "s",
                lambda _, method, properties, body: offsets.append(properties.headers["x-stream-offset"]),
                arguments={"x-stream-offset": 2},
            )
            while len(offsets) < 2:
                channel.connection.process_data_events(time_limit=0.1)
        assert offsets == [2, 3]


def test_paged_queue_is_browsed_from_the_disk_also_after_a_kill(tmp_path: Path, store: tuple[str, str]) -> None:
    lines = [json.dumps({"payload": f"{number}", "properties": {"delivery_mode": 2}}) for number in range(1, 3_001)]
    file = tmp_path / "messages.jsonl"
    file.write_text("\n".join(lines))
    with serving(tmp_path, *store) as broker:
        run(broker, "queues", "declare", "q", "overflow=page", "capacity-messages=100")
        run(broker, "queues", "publish", "q", "--json", "--file", str(file))
        before = browsed(broker, "q", "--limit", "5000")
        broker.kill()
    assert [row["payload"] for row in before] == [f"{number}" for number in range(1, 3_001)]
    assert {row["state"] for row in before} == {"ready", "paged"}
    with serving(tmp_path, *store) as broker:
        after = browsed(broker, "q", "--limit", "5000")
        assert [(row["position"], row["payload"]) for row in after] == [
            (row["position"], row["payload"]) for row in before
        ]
        assert [row["arrived"] for row in after] == [row["arrived"] for row in before]
        assert run(broker, "queues", "consume", "q", "--count", "3000", "--ack").split() == [
            row["payload"] for row in before
        ]
