"""Rows of blocks as messages: their routes are cached, and follow the topology."""

from __future__ import annotations

import pytest

from penstock.errors import BrokerError, NotFound
from penstock.ranges import row_routes
from penstock.ranges.block_rows import BlockRows
from penstock.ranges.incoming_block import IncomingBlock
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.access_of import access_of
from tests.support.block_encoder import encode_published
from tests.support.driven_connection import Dialogue, make_driver


class World:
    """A driver with a queue, and rows that a client may publish to it."""

    def __init__(self) -> None:
        self.driver = make_driver()
        self.vhost = self.driver.broker.vhosts["/"]
        self.client = Dialogue(self.driver)
        self.client.declare("q")

    def rows(self, rows: list[dict[str, object]], **constants: object) -> BlockRows:
        block = IncomingBlock(encode_published(rows, constants))
        return BlockRows(
            self.driver.broker,
            self.vhost,
            block,
            access_of(self.driver.broker),
        )


def test_rows_with_the_same_address_share_a_route() -> None:
    rows = World().rows([{"value": b"1"}, {"value": b"2"}], routing_key="q")
    rows.load(0)
    first = rows.route
    rows.load(1)
    assert rows.route is first


def test_rows_with_the_same_key_share_a_route_unlike_rows_with_other_keys() -> None:
    keys: list[dict[str, object]] = [{"value": b"", "routing_key": key} for key in ("q", "r", "q")]
    rows = World().rows(keys)
    found = []
    for row in range(3):
        rows.load(row)
        found.append(rows.route)
    assert found[0] is found[2]
    assert [len(route.queues) for route in found] == [1, 0, 1]


def test_route_follows_the_topology_between_rows() -> None:
    world = World()
    rows = world.rows([{"value": b"1"}, {"value": b"2"}, {"value": b"3"}], exchange="x", routing_key="k")
    with pytest.raises(NotFound):
        rows.load(0)
    world.client.say(method_frame(1, spec.EXCHANGE_DECLARE, exchange="x", type="direct"))
    rows.load(0)
    assert rows.route.queues == []
    world.client.say(method_frame(1, spec.QUEUE_BIND, queue="q", exchange="x", routing_key="k"))
    rows.load(1)
    assert [queue.name for queue in rows.route.queues] == ["q"]
    world.client.say(method_frame(1, spec.EXCHANGE_DELETE, exchange="x"))
    with pytest.raises(BrokerError):
        rows.load(2)


def test_number_of_kept_routes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_routes, "ROUTES_KEPT", 2)
    world = World()
    rows = world.rows([{"value": b"", "routing_key": f"k{number}"} for number in range(9)])
    for row in range(9):
        rows.load(row)
        assert rows.route.envelope.routing_key == f"k{row}"


def test_priority_and_expiration_choose_a_variant_of_the_route() -> None:
    rows = World().rows(
        [{"value": b"", "priority": 5, "expiration": "1500"}, {"value": b"", "priority": None}], routing_key="q"
    )
    rows.load(0)
    assert (rows.route.envelope.priority, rows.route.envelope.ttl_s) == (5, 1.5)
    rows.load(1)
    assert rows.route.envelope.priority == 0


def test_large_rows_and_headers_are_counted_as_work() -> None:
    world = World()
    rows = world.rows([{"value": bytes(1_000_000)}, {"value": b"", "headers_json": "{}"}], routing_key="q")
    before = int(world.driver.broker.work.done)
    rows.load(0)
    assert int(world.driver.broker.work.done) - before >= 1_000_000 // 2048
