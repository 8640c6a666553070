"""Cap of a batch over two brokers: shared by need, in few requests, and each broker's share is shown."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from tests.spark.conftest import running
from tests.support.spark_readers import bodies, numbered


class TwoBrokers:
    """A queue of one name at two brokers, and a reader of both."""

    def __init__(self, one: Any, other: Any, open_reader: Callable[..., Any], cap: int, **options: str) -> None:
        self.brokers = (one, other)
        self.cap = ReadMaxRows(cap)
        self.queue = one.declare()
        other.declare(name=self.queue)
        servers = f"{one.address},{other.address}"
        self.reader = open_reader(one, servers=servers, subscribe=self.queue, cursor=self.queue, **options)
        self.keys = [f"{self.queue}@{each.address}" for each in self.brokers]
        self.start: dict[str, Any] = {}

    def fill(self, *counts: int) -> None:
        for broker, count in zip(self.brokers, counts, strict=True):
            broker.publish(self.queue, numbered(count))

    def begin(self) -> None:
        self.start = self.reader.initialOffset()

    def batch(self) -> list[int]:
        """Plan a batch; return how many messages each broker has in it."""
        end = self.reader.latestOffset(self.start, self.cap)
        found = [end["q"][key] - self.start["q"][key] for key in self.keys]
        self.before, self.start = self.start, end
        return found

    def plans(self) -> list[int]:
        """Return the number of plans that each broker was asked for."""
        return [each.control("cursor.show", cursor=self.queue)["read"]["plans"] for each in self.brokers]


def test_busy_brokers_have_equal_parts_of_each_batch(broker, second_broker, open_reader):
    two = TwoBrokers(broker, second_broker, open_reader, 100)
    two.fill(400, 400)
    two.begin()
    assert [two.batch() for _ in range(4)] == [[50, 50]] * 4
    assert two.plans() == [4, 4], "one request each"


@pytest.mark.parametrize(("counts", "shares"), [((30, 300), [30, 70]), ((300, 30), [70, 30]), ((300, 0), [100, 0])])
def test_broker_with_little_leaves_the_rest_in_one_request_each(broker, second_broker, open_reader, counts, shares):
    two = TwoBrokers(broker, second_broker, open_reader, 100)
    two.fill(*counts)
    two.begin()
    assert two.batch() == shares
    assert two.plans() == [1, 1]


def test_backlog_that_was_not_known_fills_the_batch_by_a_second_request(broker, second_broker, open_reader):
    two = TwoBrokers(broker, second_broker, open_reader, 100)
    two.fill(80, 0)
    two.begin()
    assert two.batch() == [80, 0]
    two.fill(0, 500)
    assert two.batch() == [0, 100]
    assert bodies(two.reader, two.before, two.start) == numbered(100), "both parts are one batch"
    assert two.batch() == [0, 100]


def test_second_request_stays_within_the_largest_plan_of_a_broker(broker, open_reader):
    with running() as small:
        small.control("settings.set", scope="vhost", pattern="/", settings={"capacity-messages": 100})
        two = TwoBrokers(broker, small, open_reader, 80)
        two.begin()
        two.fill(0, 60)
        assert two.batch() == [0, 50], "half of the capacity of the virtual host"
        assert small.control("cursor.show", cursor=two.queue)["share"] == {"servers": 2, "cap": 80, "messages": 50}
        two.reader.stop()


def test_octets_of_a_batch_are_shared_as_well(broker, second_broker, open_reader):
    two = TwoBrokers(broker, second_broker, open_reader, 1_000, maxBytesPerTrigger="25k")
    two.fill(300, 300)
    two.begin()
    one, other = two.batch()
    assert one + other < 300
    assert abs(one - other) <= 1


def test_share_of_each_broker_is_logged_and_shown_there(broker, second_broker, open_reader, caplog):
    caplog.set_level(logging.INFO, "pyspark_penstock")
    two = TwoBrokers(broker, second_broker, open_reader, 100)
    two.fill(30, 300)
    two.begin()
    two.batch()
    first, second = broker.address, second_broker.address
    assert (
        f"penstock: the batch of cursor '{two.queue}' has 100 messages of at most 100: "
        f"30 of {first} (0 left), 70 of {second} (230 left)"
    ) in caplog.text
    two.batch()
    assert caplog.text.count("the batch of cursor") == 1, "not for each batch"
    found = [each.control("cursor.show", cursor=two.queue)["share"] for each in two.brokers]
    assert found == [{"servers": 2, "cap": 100, "messages": 30}, {"servers": 2, "cap": 100, "messages": 100}]
    (sentence,) = [each for each in second_broker.control("why", queue=two.queue)["sentences"] if "cursor" in each]
    assert "it has a share of 100 messages in its last batch of up to 100 messages from 2 brokers" in sentence


def test_reader_of_one_broker_has_no_share(broker, queue, open_reader):
    broker.publish(queue, numbered(3))
    reader = open_reader(broker, subscribe=queue, cursor=queue)
    reader.latestOffset(reader.initialOffset(), ReadMaxRows(10))
    assert broker.control("cursor.show", cursor=queue)["share"] is None
