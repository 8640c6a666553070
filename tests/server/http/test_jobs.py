"""Jobs over HTTP: started with job=true, listed, shown and cancelled."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.support.access_of import access_of
from tests.support.brokers import in_process
from tests.support.http_client import Answer, Web

QUEUES = [{"vhost": "/", "name": f"q{number}"} for number in range(3000)]
BROKEN = {"vhost": "/", "source": "none", "destination": "q1", "destination_type": "queue"}


def topology(**more: Any) -> bytes:
    return json.dumps({"queues": QUEUES, **more}).encode()


async def ask(web: Web, method: str, path: str, body: bytes | None = None) -> Answer:
    return await asyncio.to_thread(web.ask, method, path, body)


async def waiting_import(web: Web, broker: Any, path: str) -> asyncio.Future[Answer]:
    """Ask for an import, and make its job wait after some queues; return the answer to come."""
    queues = broker.driver.broker.vhosts["/"].queues
    importing = asyncio.ensure_future(ask(web, "POST", path, topology()))
    while not queues:  # noqa: ASYNC110 - a pass of the loop is what is meant.
        await asyncio.sleep(0)
    assert len(queues) < len(QUEUES), "an import takes more than a turn"
    jobs = broker.driver.jobs
    jobs.of(1).waits_for = jobs.add("test.never", access_of(broker.driver.broker), "the test")
    return importing


async def ended(web: Web, place: str) -> Any:
    """Return the row of a job when it has ended."""
    while True:
        row = (await ask(web, "GET", place)).json
        if row["state"] in ("done", "failed", "cancelled"):
            return row


async def test_import_with_job_is_answered_with_the_place_of_its_job() -> None:
    async with in_process(http="127.0.0.1:0") as broker:
        web = Web(broker.http_url)
        accepted = await ask(web, "POST", "/definitions?job=true", topology())
        assert (accepted.status, accepted.headers["location"]) == (202, "/api/penstock/jobs/1")
        assert (accepted.json["id"], accepted.json["subject"]) == (1, "all vhosts")
        row = await ended(web, "/penstock/jobs/1")
        assert (row["state"], row["result"]["made"]) == ("done", {"queues": len(QUEUES)})
        assert taken(broker) == 0
        assert [each["id"] for each in (await ask(web, "GET", "/penstock/jobs?state=done")).json] == [1]
        assert (await ask(web, "GET", "/penstock/jobs?state=failed")).json == []
        assert (await ask(web, "GET", "/penstock/jobs/2")).status == 404


def taken(broker: Any) -> int:
    """Return the octets of request bodies that are counted."""
    return next(int(pool.taken) for pool in broker.driver.broker.pools.every() if pool.row.key == "http_bodies")


async def test_body_of_a_detached_import_is_counted_until_its_end() -> None:
    async with in_process(http="127.0.0.1:0") as broker:
        web = Web(broker.http_url)
        await (await waiting_import(web, broker, "/definitions?job=true"))
        assert taken(broker) == len(topology())
        await ask(web, "DELETE", "/penstock/jobs/1")
        assert (await ended(web, "/penstock/jobs/1"))["state"] == "cancelled"
        assert taken(broker) == 0


async def test_cancelled_import_answers_its_request_and_leaves_nothing() -> None:
    async with in_process(http="127.0.0.1:0") as broker:
        web = Web(broker.http_url)
        queues = broker.driver.broker.vhosts["/"].queues
        importing = await waiting_import(web, broker, "/definitions")
        cancelled = await ask(web, "DELETE", "/penstock/jobs/1")
        assert (cancelled.status, cancelled.json["cancelled_by"]) == (200, "guest")
        answer = await importing
        assert (answer.status, answer.reason) == (400, "cancelled by user 'guest'; nothing was imported")
        assert not queues
        again = await ask(web, "DELETE", "/penstock/jobs/1")
        assert (again.status, again.reason) == (
            400, "job 1 (definitions.import, all vhosts) was cancelled already: there is nothing to cancel",
        )  # fmt: skip


async def test_failed_detached_import_has_the_error_of_the_request() -> None:
    async with in_process(http="127.0.0.1:0") as broker:
        web = Web(broker.http_url)
        accepted = await ask(web, "POST", "/definitions/%2F?job=true", topology(bindings=[BROKEN]))
        row = await ended(web, accepted.headers["location"].removeprefix("/api"))
        assert (row["state"], row["subject"], row["result"]) == ("failed", "vhost '/'", None)
        assert row["error"].startswith("line 1, bindings[0]: no exchange 'none'")
        assert not broker.driver.broker.vhosts["/"].queues


async def test_deletion_of_a_virtual_host_with_job_is_recorded_when_it_is_done() -> None:
    async with in_process(http="127.0.0.1:0") as broker:
        web = Web(broker.http_url)
        await ask(web, "PUT", "/vhosts/large", b"{}")
        vhost = broker.driver.broker.vhosts["large"]
        for number in range(500):
            vhost.declare_queue(f"q{number}", {}, False, False, None, None)
        accepted = await ask(web, "DELETE", "/vhosts/large?job=true")
        assert (accepted.status, accepted.json["kind"], accepted.json["vhost"]) == (202, "vhost.delete", "large")
        row = await ended(web, "/penstock/jobs/1")
        assert (row["state"], row["done"], row["all"], row["unit"]) == ("done", 500, 500, "queues")
        assert "large" not in broker.driver.broker.vhosts


def test_user_sees_and_cancels_only_own_jobs(web: Web) -> None:
    web.do("PUT", "/users/jobs-reader", b'{"password": "pw", "tags": "management"}', status=201)
    other = Web(f"http://{web.address}", "jobs-reader", "pw")
    place = web.ask("POST", "/definitions?job=true", b"{}").headers["location"].removeprefix("/api")
    assert other.ask("GET", "/penstock/jobs").json == []
    assert [other.ask(method, place).status for method in ("GET", "DELETE")] == [404, 404]
    assert web.ask("GET", place).json["user"] == "guest"
    web.do("DELETE", "/users/jobs-reader")


@pytest.mark.parametrize("number", ["x", "0", "99999999999999999999"])
def test_invalid_number_of_a_job_is_refused(web: Web, number: str) -> None:
    assert web.ask("GET", f"/penstock/jobs/{number}").status in (400, 404)
