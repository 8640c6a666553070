"""Jobs that coroutines wait for: results, errors, and cancelled waiters."""

from __future__ import annotations

import pytest

from penstock.errors import NotFound
from penstock.flow.work import Steps
from penstock.server.http.admission import result_of
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
