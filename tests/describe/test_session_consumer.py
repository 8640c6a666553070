"""Consumers in the form of RabbitMQ's management API."""

from __future__ import annotations

from typing import Any

from penstock.describe.lists import collected_steps
from penstock.describe.queue import queue_in_full
from penstock.describe.session import CONSUMER
from penstock.describe.table import reading
from penstock.flow.work import finish
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite
from tests.support.amqp10_dialogue import Amqp10Dialogue


def test_browsers_are_listed_and_marked() -> None:
    client = Amqp10Dialogue().declare("q", **{"x-single-active-consumer": True})
    browse = composite(spec.SOURCE, address="/queues/q", distribution_mode="copy")
    client.attach_receiver(None, 1, credit=5, source=browse, name="looks")
    client.attach_receiver("/queues/q", 2, credit=5, name="takes")
    items = finish(collected_steps(client.driver, "consumers", None))
    listed: Any = [CONSUMER.row(item.subject, reading(client.driver)) for item in items]  # type: ignore[arg-type]
    assert [(each["consumer_tag"], each["penstock"]["browses"], each["active"]) for each in listed] == [
        ("takes", False, True),
        ("looks", True, True),
    ]
    queue: Any = queue_in_full(client.driver.broker.vhosts["/"].queues["q"], reading(client.driver))
    assert (queue["consumers"], len(queue["consumer_details"])) == (1, 2), "a browser is no consumer of its queue"
