"""Messages browsed over HTTP: pages with a next position, rights, and a client that goes away during a read."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support.brokers import BrokerProcess, in_process
from tests.support.http_client import Web

ONE = "/penstock/queues/%2F/{}/messages"


async def test_paged_messages_are_browsed_over_http_page_by_page(tmp_path: Path) -> None:
    async with in_process(http="127.0.0.1:0", data=tmp_path) as broker:
        web = Web(broker.http_url)

        def go() -> None:
            arguments = {"x-overflow": "page", "capacity-messages": 2}
            web.do("PUT", "/queues/%2F/q", {"durable": True, "arguments": arguments}, status=201)
            for number in range(25):
                assert web.publish("q", f"grüße {number}").status == 200
            shown: list[str] = []
            following: int | None = 1
            while following is not None:
                answer = web.get(f"{ONE.format('q')}?limit=7&from={following}")
                shown += [row["payload"] for row in answer["messages"]]
                following = answer["next"]
            assert shown == [f"grüße {number}" for number in range(25)]
            row = web.queue("q")
            assert (row["messages_ready"], row["messages_unacknowledged"], row["messages_paged_out"]) == (25, 0, 23)
            assert row["penstock"]["oldest_s"] >= 0

        await asyncio.to_thread(go)


def test_browse_over_http_refuses_wrong_parameters(served: BrokerProcess, name: str) -> None:
    web = Web(served.http)
    web.do("PUT", f"/queues/%2F/{name}", {}, status=201)
    at = ONE.format(name)
    for query, reason in (
        ("filter=n+%3E", "'filter' is not a selector: the selector is not valid at character 4"),
        ("limit=0", "'limit' must be a whole number from 1, not '0'"),
        ("from=-1", "'from' must be a whole number from 0, not '-1'"),
    ):
        answer = web.ask("GET", f"{at}?{query}")
        assert (answer.status, answer.json["reason"].startswith(reason)) == (400, True), answer.json
    assert web.ask("GET", ONE.format(f"{name}-none")).status == 404
    assert web.get(at) == {"queue": name, "messages": [], "next": None, "examined": 0}
    web.do("PUT", f"/users/{name}", {"password": "secret", "tags": "management"}, status=201)
    web.do("PUT", f"/permissions/%2F/{name}", {"configure": ".*", "write": ".*", "read": ""}, status=201)
    assert Web(served.http, name, "secret").ask("GET", at).status == 401
    web.do("PUT", f"/users/{name}", {"password": "secret", "tags": ""}, status=204)
    assert Web(served.http, name, "secret").ask("GET", at).status == 401


async def test_positions_of_a_stream_are_offsets_for_browse_and_copy(tmp_path: Path) -> None:
    async with in_process(http="127.0.0.1:0", data=tmp_path) as broker:
        web = Web(broker.http_url)

        def go() -> None:
            for name, arguments in (("s", {"x-queue-type": "stream"}), ("copies", {})):
                web.do("PUT", f"/queues/%2F/{name}", {"durable": True, "arguments": arguments}, status=201)
            for number in range(5):
                assert web.publish("s", f"{number}").status == 200
            page = web.get(f"{ONE.format('s')}?positions=0,3")
            assert [(row["position"], row["payload"]) for row in page["messages"]] == [(0, "0"), (3, "3")]
            copied = web.do(
                "POST", "/penstock/queues/%2F/s/copy", {"target": "copies", "positions": [0, 3]}, status=200
            )
            assert (copied.json["copied"], copied.json["missing"]) == (2, 0)
            assert [row["payload"] for row in web.get(ONE.format("copies"))["messages"]] == ["0", "3"]

        await asyncio.to_thread(go)
