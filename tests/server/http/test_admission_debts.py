"""Debts of users of the HTTP API: each step of a request is charged, and its user waits before the next."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from penstock.driver.driver import BrokerDriver
from penstock.driver.entry_times import HTTP, EntryClock
from penstock.server.http import admission
from penstock.server.http.admission import HttpDebts
from tests.support.driven_connection import make_driver

LONG_S = 0.02


class Machine:
    """A clock that is ahead of the real one by what the steps pretend to take."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> float:
        return admission.monotonic() + self.ahead

    def busy(self) -> float:
        return 100.0 * self.ahead


@pytest.fixture
async def world() -> tuple[BrokerDriver, Machine, HttpDebts]:
    driver, machine = make_driver(), Machine()
    driver.scheduler.entries.clock = EntryClock(machine.now, machine.busy)
    return driver, machine, HttpDebts(driver.scheduler.entries)


async def carry_out(found: HttpDebts, user: str, request: Awaitable[None]) -> None:
    state = {"payer": user} if user else {}
    await found.timed({"type": "http", "method": "GET", "path": "/api/x", "state": state}, request)


async def test_steps_are_measured_one_by_one_and_waiting_is_no_work(
    world: tuple[BrokerDriver, Machine, HttpDebts],
) -> None:
    driver, machine, found = world
    steps: list[str] = []

    async def request() -> None:
        steps.append("first")
        await asyncio.sleep(2 * LONG_S)
        machine.ahead += LONG_S
        steps.append("second")
        await asyncio.sleep(0)
        steps.append("third")

    await carry_out(found, "ann", request())
    assert steps == ["first", "second", "third"]
    assert driver.scheduler.entries.counts[HTTP] == 1
    (line,) = driver.log_queue.take()
    assert line.fields["connection"] == "http ann GET /api/x"


async def test_user_with_a_debt_rests_while_other_users_do_not(world: tuple[BrokerDriver, Machine, HttpDebts]) -> None:
    _, machine, found = world

    async def request() -> None:
        machine.ahead += LONG_S

    await carry_out(found, "ann", request())
    began = admission.monotonic()
    resting = asyncio.create_task(found.rest("ann"))
    await found.rest("bob")
    assert not resting.done()
    await resting
    assert admission.monotonic() - began >= LONG_S


async def test_step_before_the_login_is_counted_and_charged_to_no_user(
    world: tuple[BrokerDriver, Machine, HttpDebts],
) -> None:
    driver, machine, found = world

    async def request() -> None:
        machine.ahead += LONG_S

    await carry_out(found, "", request())
    assert driver.scheduler.entries.counts[HTTP] == 1
    await found.rest("")


async def test_errors_and_cancellation_reach_the_request(world: tuple[BrokerDriver, Machine, HttpDebts]) -> None:
    _, _, found = world
    seen: list[str] = []

    async def failing() -> None:
        raise LookupError("hush")

    async def waiting() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    with pytest.raises(LookupError, match="hush"):
        await carry_out(found, "ann", failing())
    task = asyncio.create_task(carry_out(found, "ann", waiting()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]


async def test_number_of_users_with_debts_is_bounded(
    world: tuple[BrokerDriver, Machine, HttpDebts], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, machine, found = world
    monkeypatch.setattr(admission, "DEBTORS_MOST", 2)

    async def request() -> None:
        machine.ahead += 10.0

    for user in ("ann", "bob", "eve"):
        await carry_out(found, user, request())
    await asyncio.wait_for(found.rest("ann"), 60)  # Hers is the oldest, and is forgotten.
    assert not asyncio.create_task(found.rest("eve")).done()
