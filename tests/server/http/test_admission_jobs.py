"""Jobs that coroutines wait for: results, errors, and cancelled waiters."""

from __future__ import annotations

import asyncio

import pytest

from penstock.errors import NotFound
from penstock.flow.work import Steps
from penstock.management.jobs import DONE
from penstock.server.http.admission import result_of
from tests.support.access_of import access_of
from tests.support.brokers import in_process


def counting(steps: int, done: list[str], error: Exception | None = None) -> Steps[int]:
    for _ in range(steps):
        yield
    done.append("done")
    if error is not None:
        raise error
    return steps


async def test_result_and_error_of_a_job_reach_its_waiter() -> None:
    async with in_process() as broker:
        event_loop = broker.shard.event_loop
        for changes in (False, True):
            assert await result_of(event_loop, counting(3, []), changes) == 3
            with pytest.raises(NotFound):
                await result_of(event_loop, counting(3, [], NotFound("no queue 'q'")), changes)


async def test_job_completes_beside_changes_though_its_waiter_is_gone() -> None:
    async with in_process() as broker:
        event_loop, jobs, done = broker.shard.event_loop, broker.driver.jobs, list[str]()
        job = jobs.add("test.count", access_of(broker.driver.broker), "guest")
        result_of(event_loop, jobs.carried_out(job, as_row(counting(30, done))), job=job).cancel()
        while job.state != DONE:  # noqa: ASYNC110 - a pass of the loop is what is meant.
            await asyncio.sleep(0)
        assert (done, job.result) == (["done"], {"steps": 30})


def as_row(steps: Steps[int]) -> Steps[dict[str, object]]:
    return {"steps": (yield from steps)}


async def test_job_whose_waiter_is_gone_completes(caplog: pytest.LogCaptureFixture) -> None:
    async with in_process() as broker:
        event_loop = broker.shard.event_loop
        done: list[str] = []
        for error in (None, NotFound("no queue 'q'"), ValueError("odd")):
            result_of(event_loop, counting(3, done, error), True).cancel()
        await result_of(event_loop, counting(0, done), True)  # Changes are made one after the other.
        assert done == ["done"] * 4
        assert "odd" in caplog.text, "an error that nobody expects is logged, although nobody waits"
        assert "no queue" not in caplog.text
