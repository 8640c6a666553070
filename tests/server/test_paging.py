"""Queues that page, through real clients, with a broker that is killed in the middle."""

from __future__ import annotations

import contextlib
import json
import re
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from penstock.flowlog import read
from tests.support.brokers import BrokerProcess, eventually, serving

KEPT = pika.BasicProperties(delivery_mode=2)
PAGE: dict[str, Any] = {"x-overflow": "page", "capacity-bytes": 64 * 1024}
BODY = 1000


@contextmanager
def channel_of(broker: BrokerProcess) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel: BlockingChannel = connection.channel()
    channel.confirm_delivery()
    yield channel
    with contextlib.suppress(pika.exceptions.AMQPError):  # The broker may be dead by now.
        connection.close()


def publish(channel: BlockingChannel, first: int, last: int) -> None:
    for number in range(first, last + 1):
        channel.basic_publish("", "q", b"%d" % number + b"." * BODY, KEPT)


def number_of(body: bytes | None) -> int:
    assert body is not None
    return int(body.partition(b".")[0])


def depth(channel: BlockingChannel) -> int:
    declared: Any = channel.queue_declare("q", passive=True)
    return int(declared.method.message_count)


def asked(broker: BrokerProcess, path: str) -> dict[str, Any]:
    """What the HTTP API says."""
    head = {"Authorization": "Basic " + b64encode(b"guest:guest").decode()}
    with urllib.request.urlopen(urllib.request.Request(broker.http + path, headers=head)) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def test_what_is_paged_is_consumed_in_order_after_a_kill(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    with serving(tmp_path, *data) as broker, channel_of(broker) as channel:
        channel.queue_declare("q", durable=True, arguments=PAGE)
        publish(channel, 1, 300)
        assert depth(channel) == 300
        for number in range(1, 101):
            _, _, body = channel.basic_get("q", auto_ack=number <= 80)
            assert number_of(body) == number
        eventually(lambda: broker.logged("PST-1010"), "that it pages is in the log")
        broker.process.kill()
        broker.process.wait()
    with serving(tmp_path, *data) as broker, channel_of(broker) as channel:
        left = depth(channel)
        assert 220 <= left <= 300  # Acknowledgements of the last moment may be lost, and nothing else.
        found = []
        for method, _, body in channel.consume("q", auto_ack=True, inactivity_timeout=20.0):
            assert method is not None, f"{len(found)} of {left} came"
            found.append(number_of(body))
            if len(found) == left:
                break
        channel.cancel()
        assert found == list(range(301 - left, 301))
        assert depth(channel) == 0


def test_a_get_waits_for_its_message_and_everybody_is_told_what_is_on_the_disk(tmp_path: Path) -> None:
    options = ("--data", str(tmp_path / "data"), "--http", "127.0.0.1:0")
    with serving(tmp_path, *options) as broker, channel_of(broker) as channel:
        channel.queue_declare("q", arguments={"x-overflow": "page", "capacity-messages": 2})
        publish(channel, 1, 100)
        shown = asked(broker, "/api/queues/%2F/q")
        assert (shown["messages"], shown["messages_ready"], shown["messages_paged_out"]) == (100, 100, 98)
        assert shown["penstock"]["paged"]["messages"] == 98
        assert re.search(r"100 messages, [\d,]+ bytes, of which 98, [\d,]+ bytes, on the disk", broker.why("q"))
        for number in range(1, 101):
            method, _, body = channel.basic_get("q", auto_ack=True)
            assert method is not None, "it is said to be empty, and is not"
            assert number_of(body) == number
            assert method.message_count == 100 - number
        assert channel.basic_get("q") == (None, None, None)
        eventually(lambda: broker.logged("PST-1011"), "that it pages no more is in the log")
        told = eventually(lambda: _told(tmp_path / "data" / "flow-log"), "both are in the flow log")
        assert told == ["paging-started", "paging-stopped"]
        publish(channel, 101, 120)
        deleted: Any = channel.queue_delete("q")
        assert deleted.method.message_count == 20


def _told(folder: Path) -> list[str]:
    events = [record["event"] for record in read(folder) if record["event"].startswith("paging")]
    return events if len(events) == 2 else []


def test_without_a_store_page_is_refused_with_what_it_needs(tmp_path: Path) -> None:
    with serving(tmp_path, "--memory") as broker, channel_of(broker) as channel:
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
            channel.queue_declare("q", arguments=PAGE)
        assert caught.value.reply_code == 406
        assert "the overflow policy page needs a data directory" in caught.value.reply_text
