"""Quick sort keys of queues: they give the order that the whole objects would give."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.management import rabbitmq_json
from penstock.management.queue_order import QUEUE_ORDERS
from tests.management.test_message_stats import passed
from tests.management.test_why import GATED, consume
from tests.support.driven_connection import Dialogue, make_driver, publish


@pytest.mark.parametrize("column", QUEUE_ORDERS)
def test_key_is_the_value_of_the_column(column: str) -> None:
    client = Dialogue(make_driver())
    client.confirm()
    for name, count in (("none", 0), ("few", 2), ("many", 7)):
        client.declare(name, **GATED)
        client.say(publish(name, b"x") * count)
    client.declare("unbounded", capacity_messages="none", capacity_bytes="none")
    consume(client, "few")
    passed(client, 1)
    client.say(publish("few", b"x") + publish("none", b"x"))
    passed(client, 2)
    for queue in client.driver.broker.vhosts["/"].queues.values():
        value: Any = rabbitmq_json.queue_of(queue, client.driver)
        for name in column.split("."):
            value = None if value is None else value.get(name)
        kind, key = QUEUE_ORDERS[column](queue)
        if value is None:
            assert (kind, key) in ((0, ""), (1, 0.0))
        else:
            assert (kind, key) == (
                2 if isinstance(value, str) else 1,
                pytest.approx(value, abs=0.001) if kind == 1 else value,
            )
