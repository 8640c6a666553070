"""The share of onlookers in the loop: one slice in a pass."""

from __future__ import annotations

import asyncio
import contextlib
import functools

from penstock.cli.common import Feed
from penstock.flow.work import LOOKING_SHARE
from penstock.operations import messages
from penstock.server.slices import Slices
from tests.support.brokers import in_process
from tests.support.http_client import Web, received
from tests.support.loop_steps import steps_of


async def test_gets_with_requeue_of_eight_clients_are_cut_into_slices() -> None:
    async with in_process(http="127.0.0.1:0") as broker:
        web = Web(broker.http_url)
        await asyncio.to_thread(web.fill, 400)
        queue = broker.driver.broker.vhosts["/"].queues["q"]
        got: list[list[str]] = []
        take = lambda: got.append([each["payload"] for each in web.take("q", count=40)])  # noqa: E731
        steps = await steps_of(lambda: int(queue.waiting()), *[take] * 8)
        # Between two looks there is one slice, or two: a look is now before, now after the slice of its pass.
        assert -2 * messages.MESSAGES_AT_ONCE <= min(steps) <= -messages.MESSAGES_AT_ONCE
        assert max(steps) <= 2 * messages.SETTLED_AT_ONCE
        assert 8 * 3 // 2 <= len(steps) <= 8 * 3  # Each takes twice 20 messages and puts 40 back.
        assert sorted(len(each) for each in got) == [40] * 8
        again = await asyncio.to_thread(web.take, "q")
        assert [each["payload"] for each in again] == [str(number) for number in range(400)]


async def test_gets_whose_bodies_arrive_at_once_have_one_slice_in_a_pass() -> None:
    body = b'{"ackmode":"ack_requeue_false","count":20,"encoding":"auto"}'
    async with in_process(http="127.0.0.1:0") as broker:
        web = Web(broker.http_url)
        await asyncio.to_thread(web.fill, 160)
        queue = broker.driver.broker.vhosts["/"].queues["q"]
        head = (
            f"POST /api/queues/%2F/q/get HTTP/1.1\r\nHost: localhost\r\nAuthorization: {web.login}\r\n"
            f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n"
        )
        with contextlib.ExitStack() as sockets:
            clients = [sockets.enter_context(web.connected()) for _ in range(8)]
            for client in clients:
                client.sendall(head.encode())
                await asyncio.to_thread(received, client, b"100 Continue\r\n\r\n")
            for client in clients:
                client.sendall(body)
            answered = [functools.partial(received, client, b"}]") for client in clients]
            steps = await steps_of(lambda: int(queue.waiting()), *answered)
        assert min(steps) >= -2 * messages.MESSAGES_AT_ONCE
        assert sum(steps) == -160


class Onlookers:
    """Requests and jobs of a given number of slices; notes in which pass of the loop each slice was."""

    def __init__(self, jobs: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.slices = Slices(self.loop, self.look)
        self.passes = 0
        self.seen: list[tuple[int, str]] = []
        self._jobs = jobs
        self.loop.call_soon(self._count)

    def _count(self) -> None:
        self.passes += 1
        self.loop.call_soon(self._count)

    def look(self) -> bool:
        self.seen.append((self.passes, "jobs"))
        self._jobs -= 1
        return self._jobs > 0

    async def request(self, name: str, count: int, first: bool = False) -> None:
        for _ in range(count):
            await self.slices.pause(first)
            self.seen.append((self.passes, name))


async def test_requests_and_jobs_have_one_slice_in_a_pass_in_turn() -> None:
    onlookers = Onlookers(3)
    onlookers.slices.add_jobs()
    onlookers.slices.add_jobs()
    await asyncio.gather(onlookers.request("a", 3), onlookers.request("b", 3))
    assert [name for _, name in onlookers.seen] == ["jobs", "a", "b"] * 3
    passes = [number for number, _ in onlookers.seen]
    assert passes == list(range(passes[0], passes[0] + 9)), "one in each, and none without"


async def test_health_check_is_next_and_a_request_that_has_gone_has_no_slice() -> None:
    onlookers = Onlookers(0)
    gone = asyncio.ensure_future(onlookers.request("gone", 1))
    late = asyncio.ensure_future(onlookers.request("late", 1))
    check = asyncio.ensure_future(onlookers.request("check", 1, first=True))
    asyncio.get_running_loop().call_soon(gone.cancel)
    await asyncio.gather(gone, late, check, return_exceptions=True)
    assert [name for _, name in onlookers.seen] == ["check", "late"]


async def test_answer_of_an_onlooker_is_made_between_the_turns_of_clients() -> None:
    """What `top` reads for is no part of a turn: no turn has more work than what clients asked for."""
    async with in_process(http="127.0.0.1:0") as broker:
        driver = broker.driver
        vhost = driver.broker.vhosts["/"]
        for number in range(2_000):
            vhost.declare_queue(f"q{number}", {}, False, False, None, None)
        done = lambda: int(driver.broker.work.done)  # noqa: E731
        steps = await steps_of(done, lambda: top(broker.url))
        assert max(steps) < LOOKING_SHARE + 200
        assert sum(steps) > 20 * LOOKING_SHARE


def top(url: str) -> None:
    feed = Feed(url)
    assert len(feed.ask("top", {"count": 100})["items"]) == 100
    feed.close()
