"""The measurement of clients: cases of both shells and protocols, and of other libraries, run whole."""

from __future__ import annotations

import pytest

import penstock
from bench import clients
from bench.brokers import COMPILED, INTERPRETED
from tests.support.brokers import BrokerProcess

CASES = (
    *("asyncio amqp091: gather of 1,000 send", "asyncio amqp10: receive"),
    *("blocking amqp091: publish, receipts", "blocking amqp10: send_many", "pika: receive"),
)


@pytest.mark.parametrize("name", CASES)
def test_case_is_measured_to_its_last_message(broker: BrokerProcess, name: str) -> None:
    form = COMPILED if penstock.compiled() else INTERPRETED
    found = clients.measure(name, form, f"amqp://guest:guest@127.0.0.1:{broker.port}/", part=1 << 20)
    assert found is not None
    assert found > 0


def test_client_case_has_a_unique_name_and_a_count() -> None:
    names = clients.names()
    assert len(set(names)) == len(names)
    assert all(clients.count_of(name) >= 1000 for name in names)
