"""Whole bodies above a megabyte, read in pieces, and published again from their lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import penstock.sync
from penstock.cli.whole_bodies import say_whole
from tests.support.brokers import BrokerProcess, penstock_command
from tests.support.commands import run
from tests.support.pika_helpers import channel_of


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "text"])
@pytest.mark.parametrize("size", [(1 << 20) + 1, (9 << 20) + 5], ids=["a byte more", "spooled"])
def test_whole_bodies_are_exported_in_pieces_and_published_again(
    broker: BrokerProcess, name: str, tmp_path: Path, binary: bool, size: int
) -> None:
    run(broker, "queues", "declare", name)
    unit = bytes(range(256)) if binary else "grüße €".encode()
    sent = (unit * (size // len(unit) + 1))[:size] if binary else unit * (size // len(unit) + 1)
    (tmp_path / "body").write_bytes(sent)
    run(broker, "queues", "publish", name, "--whole", "--file", str(tmp_path / "body"), "--header", "n=1")
    run(broker, "queues", "publish", name, "small")
    done = penstock_command("messages", "browse", name, "--json", "--whole", "--url", broker.url)
    assert (done.returncode, done.stderr) == (0, "")
    large, small = map(json.loads, done.stdout.splitlines())
    assert (large["payload_encoding"], large["payload_bytes"], "truncated" in large) == ("base64", len(sent), False)
    assert small["payload"] == "small"
    (tmp_path / "messages.jsonl").write_text(done.stdout)
    run(broker, "queues", "purge", name)
    run(broker, "queues", "publish", name, "--json", "--file", str(tmp_path / "messages.jsonl"))
    with channel_of(broker) as channel:
        _, properties, body = channel.basic_get(name, auto_ack=True)
        assert (body, properties.headers) == (sent, {"n": 1})


def test_message_that_is_gone_meanwhile_is_not_printed(
    broker: BrokerProcess, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(broker, "queues", "declare", name)
    with penstock.sync.connect(broker.url) as connection:
        with connection.publisher(routing_key=name) as publisher:
            publisher.send(b"x" * ((1 << 20) + 1))
        row = next(connection.browse(name))
        assert row["truncated"]
        connection.purge_queue(name)
        assert not say_whole(connection, name, row)
    assert capsys.readouterr().out == ""
