"""Queues that page, through real clients, with a broker that is killed in the middle."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from penstock.flowlog import read
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


def test_what_is_paged_is_consumed_in_order_after_a_kill(tmp_path: Path) -> None:
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


def test_get_waits_for_its_message_and_everybody_is_told_what_is_on_the_disk(tmp_path: Path) -> None:
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


def test_without_a_store_page_is_refused_with_what_it_needs(tmp_path: Path) -> None:
    with serving(tmp_path, "--memory") as broker, channel_of(broker, confirms=True) as channel:
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
            channel.queue_declare("q", arguments=PAGE)
        assert caught.value.reply_code == 406
        assert "the overflow policy page needs a data directory" in caught.value.reply_text


COUNT = 1000


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


def confirmed(channel: BlockingChannel, number: int) -> bool:
    try:
        channel.basic_publish("", "q", b"%d" % number, KEPT)
    except pika.exceptions.NackError:
        return False
    return True


def test_consumer_that_holds_more_than_fits_into_memory_gets_all_of_it(broker: BrokerProcess) -> None:
    """What it holds is ten times the capacity: it must not keep itself from the rest (Artemis' AMQ224127)."""
    with channel_of(broker, confirms=True) as channel:
        channel.queue_declare("q", durable=True, arguments=PAGE)
        publish(channel, 1, COUNT)
        channel.basic_qos(prefetch_count=2 * COUNT)
        settled: set[int] = set()
        for tag, number, _ in received(channel, COUNT):
            assert number == tag
            if tag % 100 == 0:  # Each hundredth, and only when the next hundred has come.
                settled.add(tag - 50)
                channel.basic_ack(tag - 50)
        channel.cancel()
        channel.basic_recover(requeue=True)
        assert depth(channel, "q") == COUNT - len(settled)
        left = [number for _, number, _ in received(channel, COUNT - len(settled), auto_ack=True)]
        assert left == [number for number in range(1, COUNT + 1) if number not in settled]
        channel.cancel()
        assert depth(channel, "q") == 0


def test_window_larger_than_the_memory_moves_on_with_acknowledgements_that_come_late(broker: BrokerProcess) -> None:
    late = 250
    assert late * BODY > 3 * PAGE["capacity-bytes"]
    with channel_of(broker, confirms=True) as channel:
        channel.queue_declare("q", durable=True, arguments=PAGE)
        publish(channel, 1, COUNT)
        channel.basic_qos(prefetch_count=late + 100)
        for tag, number, redelivered in received(channel, COUNT):
            assert (number, redelivered) == (tag, False)
            if tag % 100 == 0 and tag > late:
                channel.basic_ack(tag - late, multiple=True)
            if tag == COUNT:
                channel.basic_ack(tag, multiple=True)
        channel.cancel()
        assert depth(channel, "q") == 0


def test_at_the_limit_a_publish_is_held_until_a_consumer_makes_room(broker: BrokerProcess) -> None:
    with channel_of(broker, confirms=True) as channel, channel_of(broker, confirms=True) as publishing:
        channel.queue_declare("q", durable=True, arguments={**FEW, "page-limit-messages": 6})
        publish(publishing, 1, 10)
        answers: list[bool] = []
        thread = threading.Thread(target=lambda: answers.append(confirmed(publishing, 11)), daemon=True)
        thread.start()
        eventually(lambda: "1 publish is held" in broker.why("q"), "the message beyond the limit is held")
        assert depth(channel, "q") == 10
        for number in range(1, 5):
            assert number_of(channel.basic_get("q", auto_ack=True)[2]) == number
        thread.join(PATIENCE)
        assert answers == [True]
        assert [number for _, number, _ in received(channel, 7, auto_ack=True)] == list(range(5, 12))


@pytest.mark.parametrize("policy", ["reject", "drop-new"])
def test_at_the_limit_a_publish_is_refused_where_the_queue_says_so(broker: BrokerProcess, policy: str) -> None:
    limits: dict[str, Any] = {"page-limit-messages": 6, "page-full-policy": policy}
    with channel_of(broker, confirms=True) as channel:
        channel.queue_declare("q", durable=True, arguments={**FEW, **limits})
        assert [confirmed(channel, number) for number in range(1, 14)] == [True] * 10 + [False] * 3
        assert depth(channel, "q") == 10
        for number in range(1, 6):
            assert number_of(channel.basic_get("q", auto_ack=True)[2]) == number
        assert confirmed(channel, 14)
        assert [number for _, number, _ in received(channel, 6, auto_ack=True)] == [6, 7, 8, 9, 10, 14]


def test_rabbitmqs_length_is_what_is_in_memory_and_a_limit_in_bytes_holds(broker: BrokerProcess) -> None:
    said: dict[str, Any] = {"x-max-length": 5, "x-overflow": "page", "page-limit-bytes": "4KiB"}
    with channel_of(broker, confirms=True) as channel:
        channel.queue_declare("q", durable=True, arguments={**said, "page-full-policy": "reject"})
        body = b"." * (1024 - 240 - 3)  # It is charged a KiB: overhead, and three octets of properties.
        for _ in range(9):
            channel.basic_publish("", "q", body, KEPT)
        with pytest.raises(pika.exceptions.NackError):
            channel.basic_publish("", "q", body, KEPT)
        assert "of which 4, 4,096 bytes, on the disk" in broker.why("q")


def test_of_two_consumers_the_one_of_higher_priority_gets_what_is_paged(broker: BrokerProcess) -> None:
    with channel_of(broker, confirms=True) as channel, channel_of(broker, confirms=True) as other:
        channel.queue_declare("q", durable=True, arguments=FEW)
        others: list[bytes] = []
        other.basic_consume("q", lambda _c, _m, _p, body: others.append(body), auto_ack=True)
        channel.basic_qos(prefetch_count=COUNT)
        first = channel.consume("q", arguments={"x-priority": 10}, inactivity_timeout=0.01)
        assert next(first) == (None, None, None)
        with channel_of(broker, confirms=True) as publishing:
            publish(publishing, 1, 100)
        found: list[int] = []
        for method, _, body in first:
            if method is not None:
                found.append(number_of(body))
                channel.basic_ack(method.delivery_tag)
            if len(found) == 100:
                break
        assert found == list(range(1, 101))
        other.connection.process_data_events(0)
        assert others == []


def test_what_expires_on_the_disk_goes_to_its_dead_letter_queue_in_order(broker: BrokerProcess) -> None:
    dying: dict[str, Any] = {"x-message-ttl": 200, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    with channel_of(broker, confirms=True) as channel:
        channel.queue_declare("dead", durable=True)
        channel.queue_declare("q", durable=True, arguments={**FEW, **dying})
        publish(channel, 1, 100)
        eventually(lambda: depth(channel, "q") == 0, "all have expired")
        found = [number_of(channel.basic_get("dead", auto_ack=True)[2]) for _ in range(100)]
        assert found == list(range(1, 101))


def test_after_a_purge_only_what_came_later_and_what_was_held_comes_back(tmp_path: Path) -> None:
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


def test_queue_deleted_and_declared_again_has_none_of_its_former_pages(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    with serving(tmp_path, *data) as broker, channel_of(broker, confirms=True) as channel:
        channel.queue_declare("q", durable=True, arguments=FEW)
        publish(channel, 1, 50)
        deleted: Any = channel.queue_delete("q")
        assert deleted.method.message_count == 50
        channel.queue_declare("q", durable=True, arguments=FEW)
        publish(channel, 101, 120)
        broker.kill()
    with serving(tmp_path, *data) as broker, channel_of(broker, confirms=True) as channel:
        assert depth(channel, "q") == 20
        assert [number for _, number, _ in received(channel, 20, auto_ack=True)] == list(range(101, 121))
