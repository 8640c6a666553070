"""Adaptive windows with real clients: a consumer that settles nothing does not hoard messages."""

from __future__ import annotations

import pytest

from tests.support.brokers import BrokerProcess, some_name
from tests.support.commands import listed
from tests.support.pika_helpers import channel_of

pytest.importorskip("proton", reason="python-qpid-proton is not installed: there was no C compiler")

from proton.utils import BlockingConnection

pytestmark = pytest.mark.clients

MESSAGES = 300
MOST = 4
"""The upper bound of the window: what a consumer that settles nothing gets, however long it is silent."""


def full_queue(broker: BrokerProcess) -> str:
    name = some_name("adaptive")
    with channel_of(broker, confirms=True) as channel:
        arguments = {"consumer-window-adaptive": True, "consumer-window-max": MOST}
        channel.queue_declare(name, durable=True, arguments=arguments)
        for number in range(MESSAGES):
            channel.basic_publish("", name, str(number).encode())
    return name


def test_proton_receiver_with_much_credit_leaves_messages_to_another(broker: BrokerProcess) -> None:
    queue = full_queue(broker)
    silent, busy = (BlockingConnection(broker.url.rstrip("/"), timeout=60) for _ in range(2))
    hoarding = silent.create_receiver(f"/queues/{queue}", credit=MESSAGES)
    hoarding.receive()
    working = busy.create_receiver(f"/queues/{queue}", credit=MESSAGES)
    for _ in range(MESSAGES - MOST):
        working.receive()
        working.accept()
    ours = [each for each in listed(broker, "consumers") if each["queue"]["name"] == queue]
    windows = [each["penstock"]["adaptive_window"] for each in ours]
    assert [(each["min"], each["max"]) for each in windows] == [(1, MOST)] * 2
    silent.close()
    for _ in range(MOST):
        working.receive()
        working.accept()
    busy.close()
