"""Lists, browsed messages and events, page by page."""

from __future__ import annotations

import asyncio

import pytest

import penstock
import penstock.sync
from tests.client.conversations import both_protocols, fresh, url_of


def test_list_continues_over_all_pages(client: penstock.sync.Connection) -> None:
    names = [client.declare_queue(fresh("page")) for _ in range(130)]
    assert set(names) <= {each["name"] for each in client.list("queues")}
    for name in names:
        client.delete_queue(name)


@both_protocols
async def test_watch_yields_events_of_a_queue(broker_url: str, protocol: str) -> None:
    async with penstock.connect(url_of(broker_url, protocol)) as connection:
        queue = await connection.declare_queue(fresh("watched"), capacity_messages=5, auto_delete=True)
        events = connection.watch(queue, period=0.05)
        first = asyncio.ensure_future(anext(events))
        publisher = connection.publisher(queue, window=100)
        while not first.done():
            publisher.try_publish(b"filler")
            await asyncio.sleep(0.01)
        found = [(await first)["event"]]
        while "gate-closed" not in found:
            publisher.try_publish(b"filler")
            event = await anext(events)
            assert event["queue"] == queue
            found.append(event["event"])
        await connection.delete_queue(queue)


def test_messages_are_browsed_page_by_page_and_stay(client: penstock.sync.Connection) -> None:
    queue = client.declare_queue(fresh())
    publisher = client.publisher(routing_key=queue)
    publisher.send_many([penstock.Message(b"%d" % number, headers={"n": number}) for number in range(2_500)])
    rows = list(client.browse(queue))
    assert [row["payload"] for row in rows] == [f"{number}" for number in range(2_500)]
    some = list(client.browse(queue, filter="n > 100", start=50, limit=3, truncate=1))
    assert [(row["position"], row["payload"], row["truncated"]) for row in some] == [
        *((position, "1", True) for position in (102, 103, 104)),
    ]
    assert next(iter(client.browse(queue)))["position"] == 1, "an iteration may end early"
    with pytest.raises(penstock.ControlError, match="the selector is not valid"):
        list(client.browse(queue, filter="n >"))
    assert client.why(queue).depth.messages == 2_500
    client.delete_queue(queue)
    with pytest.raises(penstock.ControlError, match="no queue"):
        list(client.browse(queue))
