"""Flow maps of a node: events of all shards as one, with the state of each shard, also of one that is away."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.cluster.node_maps import EVENT_BYTES_MOST, events
from penstock.cluster.shard_http import ShardCut
from tests.support.brokers import PATIENCE
from tests.support.http_client import Web
from tests.support.web_node import WebNode


async def pieces(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


@pytest.mark.parametrize("size", [1, 3, 10, 1000])
async def test_events_are_read_whatever_their_pieces(size: int) -> None:
    stream = (
        b'retry: 1000\n\nid: 1\nevent: flow\ndata: {"a":1}\n\n: a comment\n\nid: 2\ndata: {"b":\ndata: 2}\n\ndata: cut'
    )
    assert [each async for each in events(pieces(stream, size))] == [b'{"a":1}', b'{"b":\n2}']


async def test_event_without_an_end_is_refused() -> None:
    with pytest.raises(ShardCut, match="an event of a shard has more than 8,388,608 bytes"):
        [each async for each in events(pieces(b"x" * (EVENT_BYTES_MOST + 2), 1 << 20))]


@contextmanager
def watching(web: Web) -> Iterator[Callable[[Callable[[Any], bool]], Any]]:
    """Follow the events; yield a function that returns the first map for which another one is true."""
    connection = web.connection()
    connection.request("GET", "/api/penstock/events", headers={"Authorization": web.login})
    answer = connection.getresponse()
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")

    def first(wanted: Callable[[Any], bool]) -> Any:
        for _ in range(round(PATIENCE)):
            line = answer.readline()
            while not line.startswith(b"data: "):
                assert line, "the stream has ended"
                line = answer.readline()
            found = json.loads(line.removeprefix(b"data: "))
            if wanted(found):
                return found
        raise AssertionError(found)

    try:
        yield first
    finally:
        answer.close()
        connection.close()


def queues(found: Any) -> set[tuple[str, str]]:
    return {(each["vhost"], each["name"]) for each in found["queues"]}


def test_map_has_the_queues_of_all_shards_and_names_their_shards(node: WebNode) -> None:
    for vhost in ("%2F", "other"):
        node.web.do("PUT", f"/queues/{vhost}/orders", {"durable": True}, 201)
    with watching(node.web) as first:
        found = first(lambda each: True)
    assert queues(found) == {("/", "orders"), ("other", "orders")}
    assert {each["name"]: each["shard"] for each in found["vhosts"]} == {
        "/": node.shard_of("/"),
        "other": node.shard_of("other"),
    }
    state = {"state": "serving", "reason": None, "vhosts": 1, "starts": 1, "cause": None}
    for shard, row in zip(("1", "2"), found["shards"], strict=True):
        assert {name: row[name] for name in ("shard", *state)} == {"shard": shard, **state}
        assert row["pid"] == node.pid_of(shard)
    assert found["node"]["name"] == node.web.get("/overview")["node"]


def test_map_of_a_user_has_what_the_user_may_enter(node: WebNode) -> None:
    ada = node.user("ada", "monitoring", "other")
    with watching(ada) as first:
        found = first(lambda each: True)
    assert {each["name"] for each in found["vhosts"]} == {"other"}
    assert {vhost for vhost, _ in queues(found)} <= {"other"}


def test_map_names_a_killed_shard_and_has_its_queues_again(node: WebNode) -> None:
    two = node.shard_of("other")
    with watching(node.web) as first:
        first(lambda each: ("other", "orders") in queues(each))
        node.kill(two)
        found = first(lambda each: each["shards"][int(two) - 1]["starts"] == 2)
        assert ("/", "orders") in queues(found)
        found = first(lambda each: ("other", "orders") in queues(each))
    assert found["shards"][int(two) - 1]["state"] == "serving"


def test_map_leaves_out_a_shard_that_stands_still(node: WebNode) -> None:
    two = node.shard_of("other")
    with watching(node.web) as first, node.paused(two):
        found = first(lambda each: each["shards"][int(two) - 1]["reason"] is not None)
        assert f"shard '{two}' " in found["shards"][int(two) - 1]["reason"]
        assert {vhost for vhost, _ in queues(found)} == {"/"}
