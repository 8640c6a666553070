"""Routes of the rows of a block: what rows share, and what a change of permissions ends."""

from __future__ import annotations

import pytest

from penstock.access.permission import Permission
from penstock.core.queue.cursor_state import QueryId
from penstock.errors import AccessRefused, PreconditionFailed
from penstock.ranges.incoming_block import IncomingBlock
from penstock.ranges.row_routes import RowRoutes
from tests.support.access_of import access_of
from tests.support.block_encoder import encode_published
from tests.support.control_requests import request
from tests.support.driven_connection import Dialogue, make_driver


class World:
    """A driver with two queues, and routes of rows that a user publishes."""

    def __init__(self) -> None:
        self.driver = make_driver()
        self.broker = self.driver.broker
        self.client = Dialogue(self.driver)
        for name in ("q", "r", "answers"):
            self.client.declare(name)

    def routes(self, *keys: str, **constants: object) -> RowRoutes:
        rows: list[dict[str, object]] = [{"content": b"x", "routing_key": key} for key in keys] or [{"content": b"x"}]
        columns = IncomingBlock(encode_published(rows, constants)).columns
        return RowRoutes(self.broker, self.broker.vhosts["/"], columns, access_of(self.broker))


def test_rows_of_one_target_share_a_route() -> None:
    routes = World().routes(routing_key="q", exchange="")
    assert routes.find(0) is routes.find(1)
    assert [queue.name for queue in routes.find(0).queues] == ["q"]
    assert routes.first().envelope.exchange == ""


def test_rows_with_keys_of_their_own_have_routes_by_key() -> None:
    routes = World().routes("q", "r", "q")
    assert [routes.find(row).envelope.routing_key for row in range(3)] == ["q", "r", "q"]
    assert routes.find(0) is routes.find(2)


def test_revoked_permission_refuses_rows_and_the_loaded_row() -> None:
    world = World()
    routes = world.routes(routing_key="q")
    loaded = routes.find(0)
    routes.check_again(loaded)
    world.broker.access.set_permission("guest", "/", Permission(".*", "", ".*"))
    with pytest.raises(AccessRefused):
        routes.check_again(loaded)
    with pytest.raises(AccessRefused):
        routes.find(1)


def test_query_does_not_publish_to_the_queue_that_it_reads() -> None:
    world = World()
    world.client.say(request("cursor.attach", cursor="c", queues=["q"]))
    cursor = world.broker.vhosts["/"].cursors["c"]
    world.broker.pinned_rooms.assign(cursor, "query")
    routes = world.routes(routing_key="q")
    routes.query = QueryId("guest", "query")
    with pytest.raises(PreconditionFailed, match="the query reads queue 'q'"):
        routes.find(0)
