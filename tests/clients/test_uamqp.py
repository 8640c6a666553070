"""uamqp over AMQP 1.0 (PyPI), by a relay that ends TLS: outcomes of messages and deliveries."""

from __future__ import annotations

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import BrokerProcess, eventually
from tests.support.client_checks import available, declare_with_dead_letters, lines_of
from tests.support.fetched_clients import ROOT, uamqp_python

pytestmark = [pytest.mark.clients, pytest.mark.timeout(700)]


def test_uamqp_receives_and_sends_outcomes(broker: BrokerProcess, channel: BlockingChannel, name: str) -> None:
    python = available(uamqp_python)
    declare_with_dead_letters(channel, name)
    words = [str(python), "-m", "tests.clients.drivers.check_uamqp", broker.url.rstrip("/"), name]
    wrong_user = "user-id 'somebody-else' is not the user of the connection, 'guest'"
    rejected = f"SendFailed: ErrorCodes.UnauthorizedAccess: {wrong_user}"
    assert lines_of(words, ROOT) == [
        {"outcomes": ["SendComplete", "SendFailed: ErrorCodes.UnknownError", rejected]},
        {"deliveries": [["a", 0], ["a", 0], ["a", 1]]},
    ]
    eventually(lambda: broker.depth(f"{name}-dead") == 1, "the rejected message is a dead letter")
