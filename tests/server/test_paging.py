"""Queues that page, through real clients, with a broker that is killed in the middle."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from penstock.logs.flowlog import read
from tests.support.brokers import PATIENCE, BrokerProcess, eventually, serving
from tests.support.http_client import Web
from tests.support.pika_helpers import KEPT, channel_of, depth, stopped

PAGE: dict[str, Any] = {"x-overflow": "page", "capacity-bytes": 64 * 1024}
BODY = 1000


def publish(channel: BlockingChannel, first: int, last: int) -> None:
    for number in range(first, last + 1):
        channel.basic_publish("", "q", b"%d" % number + b"." * BODY, KEPT)


def number_of(body: bytes | None) -> int:
    return int(body.partition(b".")[0])


def test_paged_messages_are_consumed_in_order_after_a_kill(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    with serving(tmp_path, *data) as broker, channel_of(broker, confirms=True) as channel:
        channel.queue_declare("q", durable=True, arguments=PAGE)
        publish(channel, 1, 300)
        assert depth(channel, "q") == 300
        for number in range(1, 101):
            _, _, body = channel.basic_get("q", auto_ack=number <= 80)
            assert number_of(body) == number
        eventually(lambda: broker.logged("PST-1010"), "that it pages is in the log")
        broker.kill()
    with serving(tmp_path, *data) as broker, channel_of(broker, confirms=True) as channel:
        left = depth(channel, "q")
        assert 220 <= left <= 300  # Acknowledgements of the last moment may be lost, and nothing else.
        found = []
        for method, _, body in channel.consume("q", auto_ack=True, inactivity_timeout=PATIENCE):
            assert method is not None, f"{len(found)} of {left} came"
            found.append(number_of(body))
            if len(found) == left:
                break
        channel.cancel()
        assert found == list(range(301 - left, 301))
        assert depth(channel, "q") == 0


def test_get_waits_for_its_paged_message_and_counts_include_the_disk(tmp_path: Path) -> None:
    options = ("--data", str(tmp_path / "data"), "--http", "127.0.0.1:0")
    with serving(tmp_path, *options) as broker, channel_of(broker, confirms=True) as channel:
        channel.queue_declare("q", arguments={"x-overflow": "page", "capacity-messages": 2})
        publish(channel, 1, 100)
        shown = Web(broker.http).get("/queues/%2F/q")
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

        def told() -> list[str]:
            records = read(tmp_path / "data" / "flow-log")
            return [record["event"] for record in records if record["event"].startswith("paging")]

        eventually(lambda: len(told()) == 2, "both are in the flow log")
        assert told() == ["paging-started", "paging-stopped"]
        publish(channel, 101, 120)
        deleted: Any = channel.queue_delete("q")
        assert deleted.method.message_count == 20


FEW: dict[str, Any] = {"x-overflow": "page", "capacity-messages": 4, "hold-deadline": 0}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with serving(tmp_path, "--data", str(tmp_path / "data")) as running:
        yield running


def received(channel: BlockingChannel, count: int, **options: Any) -> Iterator[tuple[int, int, bool]]:
    """Consume so many messages of queue `q`: the tag, the number, and whether it is redelivered."""
    for seen, (method, _, body) in enumerate(channel.consume("q", inactivity_timeout=PATIENCE, **options), 1):
        assert method is not None, f"only {seen - 1} of {count} came"
        yield method.delivery_tag, number_of(body), method.redelivered
        if seen == count:
            return


def test_purged_messages_stay_away_after_a_kill_and_held_ones_come_back(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    with serving(tmp_path, *data) as broker, channel_of(broker, confirms=True) as channel:
        channel.queue_declare("q", durable=True, arguments=FEW)
        publish(channel, 1, 50)
        for number in range(1, 11):
            assert number_of(channel.basic_get("q")[2]) == number
        purged: Any = channel.queue_purge("q")
        assert purged.method.message_count == 40
        publish(channel, 51, 80)
        assert depth(channel, "q") == 30
        stopped(broker, channel.connection)
    with serving(tmp_path, *data) as broker, channel_of(broker, confirms=True) as channel:
        assert depth(channel, "q") == 40
        found = [(number, redelivered) for _, number, redelivered in received(channel, 40, auto_ack=True)]
        assert found == [(n, True) for n in range(1, 11)] + [(n, False) for n in range(51, 81)]
