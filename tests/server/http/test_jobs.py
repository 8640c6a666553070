"""Jobs for which coroutines wait: results, errors, and waiters that are gone."""

from __future__ import annotations

import pytest

from penstock.errors import NotFound
from penstock.flow.work import Steps
from penstock.server.http.jobs import asked, changed
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
        event_loop = broker._event_loop
        assert event_loop is not None
        for begin in (asked, changed):
            assert await begin(event_loop, counting(3, [])) == 3
            with pytest.raises(NotFound):
                await begin(event_loop, counting(3, [], NotFound("no queue 'q'")))


async def test_job_whose_waiter_is_gone_completes(caplog: pytest.LogCaptureFixture) -> None:
    async with in_process() as broker:
        event_loop = broker._event_loop
        assert event_loop is not None
        done: list[str] = []
        for error in (None, NotFound("no queue 'q'"), ValueError("odd")):
            changed(event_loop, counting(3, done, error)).cancel()
        await changed(event_loop, counting(0, done))  # Changes are made one after the other.
        assert done == ["done"] * 4
        assert "odd" in caplog.text, "an error that nobody expects is logged, although nobody waits"
        assert "no queue" not in caplog.text
