"""All clients of AMQP 0-9-1 side by side: held for some seconds (PENSTOCK_HOLD_S), and refused at the deadline.

Each is a process, some with a JVM that compiles its program. The short run holds each client in one way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.support.brokers import BrokerProcess
from tests.support.client_hold import (
    CAPACITY,
    CASES,
    FED_A_SECOND,
    HOLD_S,
    Client,
    Held,
    Refused,
    hold,
    holding_broker,
    refuse,
)
from tests.support.stalls import undisturbed

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(400 + 2 * HOLD_S)]

WITHOUT_CONFIRMS = "py-amqp"
"""The client that the short run holds without confirms too."""
REFUSED = ("pika", WITHOUT_CONFIRMS, "amqplib")
"""Clients that the short run refuses; it holds all."""


def clients(short: Callable[[Client, str], bool]) -> pytest.MarkDecorator:
    """Return the parameters of a test: each client in each way, those that are not `short` in the long run only."""
    cases = [
        pytest.param(
            client, way,
            id=f"{client.name}-{way}".replace(" ", "-"), marks=() if short(client, way) else pytest.mark.long,
        )
        for client, way in CASES
    ]  # fmt: skip
    return pytest.mark.parametrize(("client", "way"), cases)


STALL_S = 0.8
"""Of a broker that serves all of these clients at once, beside their processes."""
Holds = dict[tuple[str, Client, str], "Future[Held | Refused]"]


@pytest.fixture(scope="module")
def holds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Holds]:
    """What is asked of this module's tests, begun all at once: the long holds first."""
    wanted = [item for item in request.session.items if item.path == request.path]
    cases = [(item.originalname, item.callspec.params) for item in wanted if isinstance(item, pytest.Function)]
    tests = {hold_well: test_held_client_lives_and_goes_on, refuse: test_client_is_refused_at_the_deadline}
    with holding_broker(tmp_path_factory.mktemp("holding")) as broker, ThreadPoolExecutor(len(CASES)) as pool:
        begun: Holds = {}
        for asked, test in tests.items():
            for name, case in cases:
                client, way = case["client"], case["way"]
                if name == test.__name__ and not client.missing():
                    begun[asked.__name__, client, way] = pool.submit(asked, broker, client, way)
        yield begun
        pool.shutdown(cancel_futures=True)
        assert "Traceback" not in broker.log()


def hold_well(broker: BrokerProcess, client: Client, way: str) -> Held:
    """Hold a client that bears it; again after a stall: py-amqp's socket fails when nothing is read for a second."""

    def attempt() -> Held:
        seen = hold(broker, client, way)
        check(seen, way)
        return seen

    return undisturbed(attempt, broker, STALL_S)


def check(seen: Held, way: str) -> None:
    assert seen.received == list(range(seen.fed)), "its consumer went on all the while"
    assert seen.fed >= FED_A_SECOND * seen.seconds
    assert seen.confirmed_early <= CAPACITY
    assert (seen.lost, seen.doubled) == (0, 0)
    assert seen.highest <= CAPACITY
    assert seen.taken == sorted(seen.taken)
    # Of several that one basic.ack confirms, aio-pika tells in any order.
    assert sorted(seen.confirmed) == (list(range(seen.count)) if way == "confirms" else [])
    assert seen.failed == []


@clients(lambda client, way: way == client.ways[0] or client.name == WITHOUT_CONFIRMS)
def test_held_client_lives_and_goes_on(holds: Holds, client: Client, way: str) -> None:
    client.skip_if_missing()
    assert isinstance(holds["hold_well", client, way].result(), Held)


@clients(lambda client, way: client.name in REFUSED)
def test_client_is_refused_at_the_deadline(holds: Holds, client: Client, way: str) -> None:
    client.skip_if_missing()
    seen = holds["refuse", client, way].result()
    assert isinstance(seen, Refused)
    assert seen.kept == [0, 1], "what was not refused is in the queue"
    if client.shows_reason:
        assert f"queue {seen.queue}: " in str(seen.told["blocked"][0])
    if way == "confirms":
        assert (seen.told["confirmed"], seen.told["refused"]) == ([0, 1], [2, 3])
        assert "failed" not in seen.told
    else:
        assert "refused after its hold deadline" in str(seen.told["failed"][0])
