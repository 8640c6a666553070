"""Messages got over HTTP: in order, in slices, and with a bound of the answer."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from penstock.content.properties import Properties
from penstock.operations import messages
from tests.support.brokers import in_process
from tests.support.http_client import Answer, Web
from tests.support.loop_steps import steps_of
from tests.support.piece_store import PieceStore
from tests.support.raw_channel import Connection
from tests.support.toy_format import ToyFormat


async def test_get_of_1000_messages_takes_some_at_a_time_and_keeps_their_order() -> None:
    async with in_process(http="127.0.0.1:0") as broker:
        web = Web(broker.http_url)
        await asyncio.to_thread(web.fill, 250)
        queue = broker.driver.broker.vhosts["/"].queues["q"]
        for mode, left in (("reject_requeue_true", 250), ("ack_requeue_false", 0)):
            got: list[str] = []
            take = lambda: got.extend(each["payload"] for each in web.take("q", mode))  # noqa: E731, B023
            steps = await steps_of(lambda: int(queue.waiting()), take)
            assert min(steps) == -messages.MESSAGES_AT_ONCE
            settled = mode == "ack_requeue_false"
            assert max(steps) <= (messages.SETTLED_AT_ONCE if settled else 250), "what comes back comes at once"
            assert got == [str(number) for number in range(250)]
            assert (int(queue.waiting()), int(queue.depth_messages())) == (left, left)


async def test_get_from_a_queue_that_pages_reads_on_from_the_disk(tmp_path: Path) -> None:
    async with in_process(http="127.0.0.1:0", data=tmp_path) as broker:
        web = Web(broker.http_url)

        def go() -> None:
            arguments = {"x-overflow": "page", "capacity-messages": 2}
            web.do("PUT", "/queues/%2F/q", {"durable": True, "arguments": arguments}, status=201)
            for number in range(25):
                assert web.publish("q", str(number)).status == 200
            assert web.queue("q")["messages_paged_out"] == 23
            for mode in ("ack_requeue_true", "ack_requeue_false"):
                got = web.take("q", mode)
                assert [(each["payload"], each["message_count"]) for each in got] == [
                    (str(number), 24 - number) for number in range(25)
                ]
            assert web.take("q") == []

        await asyncio.to_thread(go)


async def test_queue_deleted_during_a_get_is_reported() -> None:
    async with in_process(http="127.0.0.1:0") as broker:
        web = Web(broker.http_url)
        await asyncio.to_thread(web.fill, 100)
        vhost = broker.driver.broker.vhosts["/"]
        queue = vhost.queues["q"]
        body = {"ackmode": "ack_requeue_true", "count": 100, "encoding": "auto"}
        asked = asyncio.ensure_future(asyncio.to_thread(web.ask, "POST", "/queues/%2F/q/get", body))
        while queue.waiting() == 100:  # noqa: ASYNC110 - a pass of the loop is what is meant.
            await asyncio.sleep(0)
        broker.driver.broker.delete_queue(queue)
        answer = await asked
        assert (answer.status, answer.json["error"]) == (404, "not_found")


async def test_large_bodies_come_back_unchanged_with_any_content() -> None:
    async with in_process(http="127.0.0.1:0") as broker:
        web = Web(broker.http_url)
        texts = ["x" * 300_000, 'é€\U0001f600\n"\\' * 40_000, "", "\x00" * 100_000]

        def go() -> None:
            web.declare("q")
            for text in texts:
                assert web.publish("q", text).json == {"routed": True}
            assert [each["payload"] for each in web.take("q")] == texts
            for text in texts:
                body = {"properties": {}, "routing_key": "q", "payload": text, "payload_encoding": "string"}
                raw = json.dumps(body, ensure_ascii=False).encode()  # Without the escapes.
                assert web.ask("POST", "/exchanges/%2F/amq.default/publish", raw).json == {"routed": True}
            assert [each["payload"] for each in web.take("q")] == texts * 2

        await asyncio.to_thread(go)


async def test_answer_has_4_mib_of_bodies_and_a_larger_message_asks_for_truncate() -> None:
    async with in_process(http="127.0.0.1:0") as broker:
        web = Web(broker.http_url)

        def go() -> None:
            web.declare("q")
            for _ in range(3):
                web.publish("q", "x" * 2_000_000)
            assert len(web.take("q")) == 2
            assert [len(each["payload"]) for each in web.take("q", truncate=10)] == [10, 10, 10]

        await asyncio.to_thread(go)


async def test_stored_message_of_another_format_is_shown_as_any_other(tmp_path: Path) -> None:
    asked = {"ackmode": "ack_requeue_true", "count": 1, "encoding": "auto"}
    for start in range(2):
        async with in_process(data=tmp_path, http="127.0.0.1:0") as broker:
            web = Web(broker.http_url)
            formats = broker.driver.broker.formats
            formats.add(ToyFormat())
            if start == 0:
                formats.default = formats.by_octet(ord("T"))
                await asyncio.to_thread(web.do, "PUT", "/queues/%2F/q", {"durable": True}, 201)
                properties = {"delivery_mode": 2, "message_id": "m", "headers": {"a": 1}}
                body = {"properties": properties, "routing_key": "q", "payload": "body", "payload_encoding": "string"}
                await asyncio.to_thread(web.ask, "POST", "/exchanges/%2F/amq.default/publish", body)
            (found,) = (await asyncio.to_thread(web.ask, "POST", "/queues/%2F/q/get", asked)).json
            assert (found["payload"], found["payload_bytes"]) == ("body", 4)
            assert found["properties"] == {"headers": {"a": 1}, "delivery_mode": 2, "message_id": "m"}
            stored = broker.driver.broker.vhosts["/"].queues["q"].ready_queue.next()
            assert formats.of(stored.content).name == "toy"


async def test_large_messages_are_read_up_to_the_shown_part() -> None:
    body = bytes(range(128)) * 40_000  # 5 MB: more than an answer has room for.
    async with in_process(http="127.0.0.1:0") as broker:
        web = Web(broker.http_url)
        bodies = broker.driver.broker.large
        store = PieceStore(bodies)

        async def taken(count: int, **more: object) -> Answer:
            """Take messages; the broker reads their pieces meanwhile."""
            asked = {"ackmode": "ack_requeue_true", "count": count, "encoding": "auto", **more}
            answer = asyncio.ensure_future(asyncio.to_thread(web.ask, "POST", "/queues/%2F/q/get", asked))
            while not answer.done():
                store.write()
                store.read()
                await asyncio.sleep(0)
            return await answer

        def publish() -> None:
            web.declare("q")
            with Connection(broker.url) as connection:
                channel = connection.channel()
                channel.publish(body, routing_key="q", properties=Properties(delivery_mode=2))
                channel.close()

        sent = asyncio.ensure_future(asyncio.to_thread(publish))
        queues = broker.driver.broker.vhosts["/"].queues
        while not sent.done() or not queues["q"].available():
            store.write()
            await asyncio.sleep(0)
        store.write()
        whole = await taken(1)
        assert (whole.status, "set truncate" in whole.reason) == (400, True)
        (shown,) = (await taken(1, truncate=300_000)).json
        assert (shown["payload_bytes"], shown["payload"]) == (len(body), body[:300_000].decode())
        assert queues["q"].available() == 1
        store.fault = "disk I/O error"
        failed = await taken(1, truncate=300_000)
        assert failed.status == 500
