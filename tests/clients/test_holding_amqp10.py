"""All clients of AMQP 1.0: held by a full queue without credit for some seconds (PENSTOCK_HOLD_S)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.brokers import BrokerProcess
from tests.support.client_hold import AMQP10_CLIENTS, CAPACITY, FED_A_SECOND, HOLD_S, Client, hold, holding_broker

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(300 + 2 * HOLD_S)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with holding_broker(tmp_path_factory.mktemp("holding")) as process:
        yield process
        assert "Traceback" not in process.log()


@pytest.mark.parametrize("client", AMQP10_CLIENTS, ids=lambda client: client.name.replace(" ", "-"))
def test_held_client_lives_and_goes_on(broker: BrokerProcess, client: Client) -> None:
    client.skip_if_missing()
    seen = hold(broker, client, "credit")
    assert seen.received == list(range(seen.fed)), "its consumer went on all the while"
    assert seen.fed >= FED_A_SECOND * seen.seconds
    assert (seen.lost, seen.doubled) == (0, 0)
    assert seen.highest <= CAPACITY, "no more was sent than there are places"
    assert seen.confirmed_early <= CAPACITY
    assert seen.taken == list(range(seen.count))
    assert sorted(map(int, map(str, seen.confirmed))) == list(range(seen.count))
    assert seen.failed == []
