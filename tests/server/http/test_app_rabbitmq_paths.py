"""Paths of RabbitMQ's API over HTTP: each is served, or refused with a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.operations.stand_ins import REFUSED
from penstock.server.http.app import TABLE
from tests.support.brokers import BrokerProcess, some_name
from tests.support.http_client import Web
from tests.support.raw_channel import Connection

RABBITMQ = Path(__file__).parent / "rabbitmq_paths.txt"


def shape(path: str) -> str:
    """Return a path without the names of its parts."""
    return re.sub(r":\w+|\{\w+\}", "{}", path)


def paths_of_rabbitmq() -> Iterator[tuple[str, str]]:
    for line in RABBITMQ.read_text().splitlines():
        if not line.startswith("#"):
            *methods, path = line.split()
            for method in methods:
                yield method, path


SERVED = {(method, shape(path)) for path, places in TABLE.items() for method in places}


@pytest.mark.parametrize(("method", "path"), list(paths_of_rabbitmq()))
def test_path_of_rabbitmq_is_served_or_refused_with_a_sentence(method: str, path: str) -> None:
    assert (method, shape(path)) in SERVED


def test_list_of_paths_is_that_of_a_whole_release() -> None:
    assert len({path for _, path in paths_of_rabbitmq()}) >= 120


@pytest.mark.parametrize("where", list(REFUSED))
def test_refused_path_names_the_reason(web: Web, where: str) -> None:
    *methods, path = where.split()
    for method in methods:
        answer = web.ask(method, re.sub(r"\{(\w+)\}", lambda part: {"vhost": "%2F"}.get(part[1], "x"), path), {})
        assert (answer.status, answer.reason) == (405, REFUSED[where])


@pytest.fixture
def node(web: Web) -> str:
    return str(web.get("/overview")["node"])


def test_refused_method_names_the_methods_of_its_path(web: Web) -> None:
    for method, path, allowed in (("DELETE", "/reset", ""), ("DELETE", "/auth/attempts/x", "GET")):
        assert web.ask(method, path).headers["allow"] == allowed


def test_change_that_one_node_needs_not_make_is_answered_without_a_body(web: Web, node: str) -> None:
    for method, path in (
        ("PUT", "/feature-flags/quorum_queue/enable"),
        ("POST", "/rebalance/queues"),
        ("POST", f"/vhosts/%2F/start/{node}"),
    ):
        answer = web.ask(method, path, b"not JSON")
        assert (answer.status, answer.body) == (204, b"")
    absent = web.ask("POST", f"/vhosts/nosuch/start/{node}")
    assert (absent.status, absent.json) == (404, {"error": "Object Not Found", "reason": "Not Found"})


def test_list_of_an_absent_virtual_host_is_404(web: Web) -> None:
    assert web.ask("GET", "/shovels/nosuch").status == 404
    assert web.ask("GET", "/health/checks/quorum-queues-without-elected-leaders/vhost/nosuch").status == 404


def test_status_of_a_classic_queue_as_a_quorum_queue_is_503(web: Web, node: str) -> None:
    name = some_name("classic")
    web.do("PUT", f"/queues/%2F/{name}", {}, 201)
    answer = web.ask("GET", f"/queues/quorum/%2F/{name}/status")
    assert (answer.status, answer.reason) == (503, f"queue '{name}' is no quorum queue")
    assert web.ask("GET", "/queues/quorum/%2F/nosuch/status").status == 404
    web.do("DELETE", f"/queues/%2F/{name}")


def test_memory_of_the_node_is_that_of_its_process(web: Web, node: str) -> None:
    memory = web.get(f"/nodes/{node}/memory")["memory"]
    assert memory["queue_procs"] + memory["other_proc"] == memory["total"]["rss"] > 1024 * 1024
    relative = web.get(f"/nodes/{node}/memory/relative")["memory"]
    assert 90 <= relative["queue_procs"] + relative["other_proc"] <= 101
    assert web.ask("GET", "/nodes/other@host/memory").status == 404


def test_logins_are_counted_by_outcome(served: BrokerProcess, web: Web, node: str) -> None:
    (before,) = web.get(f"/auth/attempts/{node}")
    Connection(served.url).close()
    (after,) = web.get(f"/auth/attempts/{node}")
    assert after["auth_attempts"] == after["auth_attempts_succeeded"] + after["auth_attempts_failed"]
    assert after["auth_attempts_succeeded"] > before["auth_attempts_succeeded"]
