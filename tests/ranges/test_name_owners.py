"""Names that clients choose: a user can neither take nor block the names of another user."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.access.permission import Permission
from penstock.errors import AccessRefused, BrokerError
from tests.support.access_of import access_of
from tests.support.driven_connection import Dialogue, make_driver
from tests.support.operation_calls import ask

SINK = {"query": "q", "batch": 0, "run": "r", "write": "w", "exchange": "", "routing_key": "orders"}
TASK = {**SINK, "partition": 0, "attempt": 0, "delivery": "dedup"}
WAITING = {"application": "a", "task": "1", "cores": 2, "queue": "orders"}
NAMES: dict[str, tuple[str, dict[str, object], type[BrokerError] | None]] = {
    "query of a sink, with marks": ("sink.begin", TASK, AccessRefused),
    "query of a sink, with stages": ("sink.begin", {**TASK, "delivery": "transactional"}, AccessRefused),
    "query of a sink, its commit": ("sink.commit", {**SINK, "delivery": "dedup", "partitions": {}}, AccessRefused),
    "query of a sink, its end": ("sink.abort", SINK, AccessRefused),
    "cursor": ("cursor.attach", {"cursor": "c", "queues": ["orders"]}, AccessRefused),
    "cursor, taken over": ("cursor.attach", {"cursor": "c", "queues": ["orders"], "takeover": True}, AccessRefused),
    "cursor, deleted": ("cursor.delete", {"cursor": "c"}, BrokerError),
    "tasks that wait": ("sink.waiting", WAITING, None),
    "query that reads": ("query.progress", {"query": "q"}, None),
}
"""For each name that a client chooses: an operation that uses the name, and how a stranger is refused.

Without a refusal the name is apart for each user. Lanes of producers, rooms of queries and links of AMQP 1.0 have tests
of their own.
"""


class House:
    """Queue `orders`, which only `app` may use, queue `hers` of `mallory`, and user `nobody` without permissions."""

    def __init__(self) -> None:
        self.driver = make_driver()
        self.client = Dialogue(self.driver)
        self.client.declare("orders", durable=True)
        self.client.declare("hers", durable=True)
        access = self.driver.broker.access
        for user, names in (("app", "orders|amq.default"), ("mallory", "hers"), ("nobody", None)):
            access.put_user(user, None, [])
            if names is not None:
                access.set_permission(user, "/", Permission(names, names, names))

    def ask(self, user: str, operation: str, fields: dict[str, object]) -> Any:
        access = access_of(self.driver.broker, user)
        return ask(self.driver, operation, fields, self.client.connection, access=access)


@pytest.mark.parametrize("stranger", ["mallory", "nobody"])
@pytest.mark.parametrize("name", NAMES)
def test_name_is_not_taken_by_a_stranger(name: str, stranger: str) -> None:
    operation, fields, refusal = NAMES[name]
    untouched = House()
    try:
        expected = untouched.ask("app", operation, fields)
    except BrokerError as error:
        expected = str(error)
    house = House()
    if refusal is None:
        house.ask(stranger, operation, fields)
    else:
        with pytest.raises(refusal):
            house.ask(stranger, operation, fields)
    try:
        found = house.ask("app", operation, fields)
    except BrokerError as error:
        found = str(error)
    assert found == expected


def test_cursor_is_not_taken_over_through_a_queue_that_the_reader_does_not_read() -> None:
    house = House()
    attach: dict[str, object] = {"cursor": "c", "queues": ["orders"]}
    token = house.ask("app", "cursor.attach", attach)["token"]
    for more in ({}, {"takeover": True}, {"takeover": True, "release": True}, {"dry_run": True}, {"partial": True}):
        with pytest.raises(AccessRefused, match="read access to queue 'orders'"):
            house.ask("mallory", "cursor.attach", {"cursor": "c", "queues": ["hers"], **more})
    assert house.ask("app", "cursor.settle", {"cursor": "c", "token": token, "end": {"orders": 0}}) is not None


def test_cursor_still_belongs_to_the_user_when_a_permission_is_revoked() -> None:
    house = House()
    access = house.driver.broker.access
    access.set_permission("app", "/", Permission("", "", "orders|hers"))
    house.ask("app", "cursor.attach", {"cursor": "c", "queues": ["orders", "hers"]})
    access.set_permission("app", "/", Permission("", "", "orders"))
    fields: dict[str, object] = {"cursor": "c", "queues": ["orders", "hers"], "partial": True, "takeover": True}
    assert list(house.ask("app", "cursor.attach", fields)["refused"]) == ["hers"]


def test_cursor_of_another_user_is_continued_by_a_reader_of_all_queues() -> None:
    house = House()
    attach: dict[str, object] = {"cursor": "c", "queues": ["orders"], "takeover": True}
    assert house.ask("app", "cursor.attach", attach)["created"]
    house.driver.broker.access.set_permission("nobody", "/", Permission("", "", "orders"))
    assert not house.ask("nobody", "cursor.attach", attach)["created"]
    assert house.driver.broker.vhosts["/"].cursors["c"].user == "nobody"
