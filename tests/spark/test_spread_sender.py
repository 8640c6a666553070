"""A sink with two brokers, without Spark: shares, repetitions, and a broker that is full, away or killed."""

import itertools
import threading

import pyarrow as pa
import pytest

from pyspark_penstock import publish
from pyspark_penstock.delivery import BatchIds, TaskIds, abort_batch, commit_batch
from pyspark_penstock.errors import PublishFailed
from pyspark_penstock.options import sink_options
from pyspark_penstock.spread import server_of, spread_servers
from pyspark_penstock.spread_sender import SpreadSender
from tests.spark.conftest import until
from tests.spark.test_delivery import bodies, in_queue, rows
from tests.support.tcp_proxy import proxied

_queries = itertools.count(1)


class Pair:
    """A queue of one name at two brokers, and a batch of a query that is spread over them."""

    def __init__(self, one, other, mode="dedup", **given):
        self.brokers = {each.address: each for each in (one, other)}
        self.queue = given.pop("queue", f"spread-{next(_queries)}")
        self.mode = mode
        self.query, self.number, self.runs = f"query {self.queue}", 0, 0
        given = {"servers": ",".join(self.brokers), "publishTimeout": "60s", "delivery": mode, **given}
        self.options = sink_options({"queue": self.queue, **given})
        self.run()

    @classmethod
    def declared(cls, one, other, mode="dedup", limits=({}, {}), **given):
        pair = cls(one, other, mode, **given)
        for broker, arguments in zip((one, other), limits, strict=True):
            broker.declare(name=pair.queue, **arguments)
        return pair

    def run(self, **given):
        """Begin the batch (again), as a driver does after a restart, with other options if they are given."""
        self.runs += 1
        self.attempts = itertools.count(0)
        self.ids = BatchIds(self.query, self.number, f"run {self.runs}", f"write {self.runs}")
        if given:
            self.options = sink_options({"queue": self.queue, "publishTimeout": "60s", "delivery": self.mode, **given})

    def task(self, partition, *batches):
        return self.task_of(partition, iter(batches))

    def task_of(self, partition, batches):
        ids = TaskIds(self.ids, partition, next(self.attempts) << 16)
        return SpreadSender(self.options, self.mode, ids, partition).send(batches)[1]

    def commit(self, *parts):
        commit_batch(self.options, list(itertools.chain(*parts)))

    def server(self, partition):
        """Return the address of the broker of a partition."""
        return str(server_of(self.options, partition, self.number))

    def partition_at(self, broker):
        """Return the first partition of a broker."""
        return next(each for each in range(2) if self.server(each) == broker.address)

    def found(self):
        """Take everything that is in the queues, by broker."""
        return {address: in_queue(broker, self.queue) for address, broker in self.brokers.items()}

    def all_found(self):
        return sorted(itertools.chain(*self.found().values()), key=int)


def keyed(first, end, keys=7):
    return rows(first, end, message_id=[f"key {number % keys}" for number in range(first, end)])


def test_partitions_are_at_their_brokers_and_a_batch_run_again_adds_nothing(broker, second_broker):
    pair = Pair.declared(broker, second_broker)
    for _ in range(2):
        pair.run()
        parts = [pair.task(each, rows(100 * each, 100 * each + 50), rows(100 * each + 50, 100 * each + 60))
                 for each in range(3)]  # fmt: skip
        pair.commit(*parts)
    found = pair.found()
    assert found[pair.server(0)] == bodies(0, 60) + bodies(200, 260)
    assert found[pair.server(1)] == bodies(100, 160)
    pair.number += 1
    pair.run()
    pair.commit(pair.task(0, rows(0, 5)))
    assert pair.found()[pair.server(0)] == bodies(0, 5), "another broker is first in the next batch"


def test_rows_of_one_value_are_at_one_broker_in_their_order_and_once(broker, second_broker):
    pair = Pair.declared(broker, second_broker, spreadColumn="message_id")
    pair.task(0, keyed(0, 300))
    pair.run()
    parts = pair.task(0, keyed(0, 100), keyed(100, 500))
    pair.commit(parts)
    assert sum(part.rows for part in parts) == 500
    found = pair.found()
    keys = {address: {int(body) % 7 for body in taken} for address, taken in found.items()}
    assert all(taken == sorted(taken, key=int) for taken in found.values())
    assert all(keys.values())
    assert not set.intersection(*keys.values())
    assert sum(map(len, found.values())) == 500


def test_rows_at_least_once_need_no_broker_but_their_own(broker, second_broker):
    with proxied(second_broker.address) as proxy:
        proxy.down = True
        pair = Pair.declared(broker, second_broker)
        servers = f"{broker.address},{proxy.address}"
        options = sink_options({"queue": pair.queue, "servers": servers, "delivery": "at-least-once"})
        own = next(each for each in range(2) if str(server_of(options, each, 0)) == broker.address)
        assert SpreadSender(options, "at-least-once", None, own).send(iter([rows(0, 9)])) == (9, [])
        assert proxy.refused == 0
    assert in_queue(broker, pair.queue) == bodies(0, 9)


def test_task_without_rows_connects_nowhere():
    options = sink_options({"queue": "q", "servers": "127.0.0.1:1,127.0.0.1:2"})
    ids = TaskIds(BatchIds("q", 0, "", ""), 0, 0)
    assert [part.rows for part in SpreadSender(options, "dedup", ids, 0).send(iter([rows(0, 0)]))[1]] == [0]


@pytest.mark.slow
@pytest.mark.parametrize("column", [pytest.param(None, marks=pytest.mark.long), "message_id"])
def test_broker_killed_and_restarted_in_a_batch_has_each_row_of_its_share_once(
    second_broker, restarts, monkeypatch, column
):
    monkeypatch.setattr(publish, "BLOCK_ROWS", 200)
    first = restarts()
    given = {"publishWindow": "1000"} if column is None else {"publishWindow": "1000", "spreadColumn": column}
    pair = Pair.declared(first, second_broker, limits=({"durable": True}, {}), **given)
    own = pair.partition_at(first)
    parts = {}

    def half_killed():
        yield keyed(0, 3_000)
        until(lambda: first.depth(pair.queue) >= 500, "rows of the share are at the broker")
        pair.brokers[first.address] = restarts(kill=True)
        yield keyed(3_000, 6_000)

    parts = [pair.task_of(own, half_killed()), pair.task(1 - own, keyed(6_000, 7_000))]
    pair.commit(*parts)
    assert pair.all_found() == bodies(0, 7_000)


def test_broker_that_stays_away_ends_the_task_and_a_later_run_completes_the_batch(broker, second_broker):
    with proxied(second_broker.address) as proxy:
        pair = Pair.declared(broker, second_broker)
        servers = f"{broker.address},{proxy.address}"
        pair.run(servers=servers, publishTimeout="1s")
        here = next(each for each in range(2) if pair.server(each) == broker.address)
        pair.task(here, rows(0, 10))
        proxy.down = True
        proxy.cut()
        with pytest.raises(PublishFailed, match=rf"queue '{pair.queue}' at {proxy.address} has confirmed nothing for"):
            pair.task(1 - here, rows(10, 20))
        proxy.down = False
        pair.run(servers=servers)
        pair.commit(pair.task(here, rows(0, 10)), pair.task(1 - here, rows(10, 20)))
    assert pair.all_found() == bodies(0, 20)


def test_batch_begins_nowhere_while_one_of_its_brokers_cannot_be_reached(broker, second_broker):
    pair = Pair.declared(broker, second_broker)
    pair.run(servers=f"{broker.address},127.0.0.1:1", publishTimeout="500ms")
    own = next(each for each in range(2) if pair.server(each) == broker.address)
    with pytest.raises(PublishFailed, match=r"at 127\.0\.0\.1:1 has confirmed nothing"):
        pair.task(own, rows(0, 10))
    assert pair.query not in [each["query"] for each in broker.control("list", kind="sinks")["items"]]
    pair.run(servers=",".join(pair.brokers))
    pair.commit(pair.task(0, rows(0, 10)))
    assert pair.all_found() == bodies(0, 10), "the mistyped list may be corrected"


def test_full_broker_holds_its_partition_only_and_is_named(broker, second_broker):
    full = {"capacity_messages": 10, "hold_deadline": 0}
    pair = Pair.declared(broker, second_broker, limits=({}, full), publishTimeout="2s")
    own = pair.partition_at(broker)
    with pytest.raises(PublishFailed, match="has confirmed nothing for") as failed:
        pair.task(1 - own, rows(0, 30))
    assert second_broker.depth(pair.queue) == 10
    assert [part.rows for part in pair.task(own, rows(30, 2_000))] == [1_970]
    assert f"queue '{pair.queue}' at {second_broker.address}" in str(failed.value)
    assert "depth 10 messages" in str(failed.value)
    assert len(in_queue(broker, pair.queue)) == 1_970


def test_full_broker_lets_the_rows_of_the_other_in_until_its_window_is_full(broker, second_broker, monkeypatch):
    monkeypatch.setattr(publish, "BLOCK_ROWS", 50)
    full = {"capacity_messages": 10, "hold_deadline": 0}
    given = {"spreadColumn": "message_id", "publishWindow": "400"}
    pair = Pair.declared(broker, second_broker, limits=({}, full), **given)
    done = []
    task = threading.Thread(
        target=lambda: done.append(pair.task(0, *[keyed(at, at + 100) for at in range(0, 700, 100)]))
    )
    task.start()
    until(lambda: second_broker.depth(pair.queue) == 10, "the second broker is full")
    until(lambda: broker.depth(pair.queue) >= 200, "the first one has its share of what was sent")
    taken = []
    while task.is_alive():
        taken += in_queue(second_broker, pair.queue)
    pair.commit(*done)
    taken += in_queue(second_broker, pair.queue)
    assert sorted([*taken, *in_queue(broker, pair.queue)], key=int) == bodies(0, 700)


@pytest.mark.parametrize("servers", ["{0},{1},{2}", "{0}", "{1}", "{0},{2}"])
def test_batch_that_is_run_again_with_other_brokers_is_refused_and_sends_nothing(
    broker, second_broker, restarts, servers
):
    third = restarts()
    pair = Pair.declared(broker, second_broker)
    third.declare(name=pair.queue)
    own = pair.partition_at(broker)
    pair.task(own, rows(0, 10))
    before = pair.options
    addresses = [broker.address, second_broker.address, third.address]
    pair.run(servers=servers.format(*addresses))
    listed = ", ".join(map(str, spread_servers(before)))
    for partition in range(3):
        if len(pair.options.access.servers) > 1:
            task = SpreadSender(pair.options, "dedup", TaskIds(pair.ids, partition, 0), partition)
            with pytest.raises(PublishFailed, match=f"was begun with servers {listed} by partition, and is run again"):
                task.send(iter([rows(0, 10)]))
        else:
            sole = publish.Sender(pair.options, publish_delivery(pair, partition))
            with pytest.raises(PublishFailed, match=f"was begun with servers {listed} .* with this broker alone"):
                sole.send(iter([rows(0, 10)]))
    assert third.depth(pair.queue) == 0
    pair.run()
    pair.options = before
    pair.commit(pair.task(own, rows(0, 10)), pair.task(1 - own, rows(10, 20)))
    assert pair.all_found() == bodies(0, 20), "the former list completes the batch"
    pair.number += 1
    pair.run(servers=f"{broker.address},{third.address}")
    pair.commit(pair.task(0, rows(20, 25)), pair.task(1, rows(25, 30)))
    found = [*in_queue(broker, pair.queue), *in_queue(third, pair.queue)]
    assert sorted(found, key=int) == bodies(20, 30), "and the next batch has the other list"


def publish_delivery(pair, partition):
    from pyspark_penstock.delivery import ExactDelivery

    return ExactDelivery(pair.options, "dedup", TaskIds(pair.ids, partition, 0))


def test_restarted_broker_still_refuses_another_list(second_broker, restarts):
    first = restarts()
    pair = Pair.declared(first, second_broker, limits=({"durable": True}, {}))
    pair.task(pair.partition_at(second_broker), rows(0, 10))
    first = restarts(kill=True)
    pair.run(servers=first.address)
    with pytest.raises(PublishFailed, match=r"was begun with servers .* with this broker alone"):
        publish.Sender(pair.options, publish_delivery(pair, 0)).send(iter([rows(0, 10)]))
    assert first.depth(pair.queue) == 0


def test_transactional_batch_published_at_one_broker_ends_with_other_partitions(broker, second_broker):
    full = {"capacity_messages": 400, "hold_deadline": 0}
    given = {"spreadColumn": "message_id"}
    pair = Pair.declared(broker, second_broker, "transactional", (full, full), **given)
    last = pair.brokers[str(spread_servers(pair.options)[-1])]
    last.publish(pair.queue, [b"900"] * 310)
    pair.run(servers=",".join(pair.brokers), publishTimeout="2s", **given)
    parts = [pair.task(each, keyed(100 * each, 100 * each + 100)) for each in range(3)]
    with pytest.raises(PublishFailed, match=rf"was not published to queue '{pair.queue}' at {last.address}: there was"):
        pair.commit(*parts)
    abort_batch(pair.options, list(itertools.chain(*parts)))
    first = next(each for each in pair.brokers.values() if each is not last)
    share = first.depth(pair.queue)
    assert 0 < share < 300
    assert len(in_queue(last, pair.queue)) == 310
    pair.run(servers=",".join(pair.brokers), **given)
    whole = pa.Table.from_batches([keyed(0, 300)]).sort_by([("value", "descending")]).combine_chunks().to_batches()
    pair.commit(*[pair.task(each, whole[0].slice(150 * each, 150)) for each in range(2)])
    assert first.depth(pair.queue) == share
    assert pair.all_found() == bodies(0, 300)
