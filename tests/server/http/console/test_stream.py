"""The stream of events: access, format, and end."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.flow.pool import PoolHolder
from penstock.server.http.console.hub import OF_USER_MOST, Hub
from penstock.settings.pools import CONSOLES
from tests.support.brokers import eventually, in_process, serving, settings_file, some_name
from tests.support.http_client import Web
from tests.support.stalls import undisturbed
from tests.support.tokens import pem, rsa_key, token

LEEWAY_S = 30
LASTS_S = 4
"""Seconds beyond its expiry for which a token is taken, and for which the one here is taken."""


@contextlib.contextmanager
def stream(web: Web) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection(web.address, timeout=60)
    try:
        connection.request("GET", "/api/penstock/events", headers={"Authorization": web.login})
        yield connection.getresponse()
    finally:
        connection.close()


def next_map(answer: http.client.HTTPResponse) -> dict:
    while True:
        line = answer.readline()
        assert line, "the stream has ended"
        if line.startswith(b"data: "):
            return json.loads(line[6:])


def test_maps_come_one_after_the_other(web: Web) -> None:
    queue = some_name("watched")
    web.declare(queue, capacity_messages=7)
    for _ in range(3):
        web.publish(queue)
    with stream(web) as answer:
        assert answer.status == 200
        assert answer.getheader("content-type") == "text/event-stream; charset=utf-8"
        found = next_map(answer)
        (shown,) = [each for each in found["queues"] if each["name"] == queue]
        assert (shown["messages"], shown["capacity"]) == (3, {"messages": 7, "bytes": None})
        assert next_map(answer)["at"] > found["at"]


def test_user_without_the_tag_monitoring_gets_none(web: Web) -> None:
    web.do("PUT", "/users/manager", {"password": "a long password", "tags": "management"}, status=201)
    with stream(Web(f"http://{web.address}", "manager", "a long password")) as answer:
        assert answer.status == 401
    web.do("DELETE", "/users/manager")


def test_monitoring_user_sees_the_virtual_hosts_that_it_may_enter(web: Web) -> None:
    web.do("PUT", "/vhosts/secret", {}, status=201)
    web.do("PUT", "/queues/secret/hidden", {}, status=201)
    web.do("PUT", "/users/watcher", {"password": "a long password", "tags": "monitoring"}, status=201)
    web.do("PUT", "/permissions/%2F/watcher", {"configure": "", "write": "", "read": ""}, status=201)
    with stream(Web(f"http://{web.address}", "watcher", "a long password")) as answer, stream(web) as all_of_it:
        assert "hidden" in [queue["name"] for queue in next_map(all_of_it)["queues"]]
        assert "hidden" not in [queue["name"] for queue in next_map(answer)["queues"]]
        web.do("DELETE", "/users/watcher")
        while answer.readline():
            pass  # It ends as soon as the user may see nothing any more.
    web.do("DELETE", "/vhosts/secret")


def test_user_that_loses_its_tag_gets_no_further_map(web: Web) -> None:
    web.do("PUT", "/users/watcher", {"password": "a long password", "tags": "monitoring"}, status=201)
    web.do("PUT", "/permissions/%2F/watcher", {"configure": "", "write": "", "read": ""}, status=201)
    later = some_name("later")
    with stream(Web(f"http://{web.address}", "watcher", "a long password")) as answer:
        next_map(answer)
        web.do("PUT", "/users/watcher", {"password": "a long password", "tags": "management"}, status=204)
        web.declare(later)
        assert later.encode() not in answer.read()
    web.do("DELETE", "/users/watcher")


@pytest.mark.slow
def test_stream_ends_when_the_token_of_its_login_has_expired(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_bytes(pem(rsa_key()))
    options = settings_file(tmp_path, '[oauth]\nresource_server_id = "penstock"\nkeys = "key.pem"\n')
    with serving(tmp_path, *options, "--http", "127.0.0.1:0") as process:

        def watch_and_expire() -> None:
            end = time.time() + LASTS_S
            given = token("penstock.tag:monitoring", exp=end - LEEWAY_S)
            with stream(Web(process.http, "", given)) as answer:
                seen = [json.loads(line[6:])["at"] for line in answer if line.startswith(b"data: ")]
            assert seen, "the broker was stalled for as long as the token lasts"
            assert max(seen) < end * 1000

        undisturbed(watch_and_expire)


def test_streams_of_a_user_are_bounded_and_a_closed_one_makes_room(web: Web) -> None:
    web.do("PUT", "/users/watcher", {"password": "a long password", "tags": "administrator"}, status=201)
    with stream(web) as first:
        assert first.status == 200
        others = [stream(web) for _ in range(OF_USER_MOST - 1)]
        for each in others:
            assert each.__enter__().status == 200
        with stream(web) as refused:
            assert refused.status == 503
            assert b"8 streams of events of user 'guest' are open; close a console" in refused.read()
        with stream(Web(f"http://{web.address}", "watcher", "a long password")) as another:
            assert another.status == 200
            next_map(another)
        for each in others:
            each.__exit__(None, None, None)

        def has_room() -> bool:
            with stream(web) as another:
                return another.status == 200

        eventually(has_room, "a place after the others have gone")
    web.do("DELETE", "/users/watcher")


async def test_streams_of_all_users_are_bounded() -> None:
    async with in_process() as broker:
        hub = Hub(broker.shard.event_loop)
        users = 0
        while hub.refusal(PoolHolder("anna", "")) == "":
            hub.pool.add(PoolHolder(f"user {users}", ""), 1)
            users += 1
        assert users == CONSOLES.limit - CONSOLES.limit // 16
        assert "consoles with events: user 'anna' has 0" in hub.refusal(PoolHolder("anna", ""))
        assert hub.refusal(PoolHolder("operator", "", True)) == ""


def test_question_for_its_head_only_has_an_end(web: Web) -> None:
    with contextlib.closing(http.client.HTTPConnection(web.address, timeout=60)) as connection:
        for method, path in (("HEAD", "/api/penstock/events"), ("GET", "/api/whoami")):
            connection.request(method, path, headers={"Authorization": web.login})
            answer = connection.getresponse()
            assert (answer.status, len(answer.read()) > 0) == (200, method == "GET")


def test_broker_stops_though_a_console_watches(tmp_path: Path) -> None:
    with serving(tmp_path, "--http", "127.0.0.1:0") as process, stream(Web(process.http)) as answer:
        next_map(answer)
        process.process.terminate()
        while answer.readline():
            pass  # The stream has an end, as it should.
        assert process.process.wait(60) == 0
        assert "Traceback" not in process.log()
