"""Queues that an attach creates where a pattern asks for it."""

from __future__ import annotations

import pytest

from penstock.core.settings.table import COMMAND
from penstock.errors import PreconditionFailed
from penstock.settings.read import read_settings
from tests.support.amqp10_dialogue import Amqp10Dialogue, condition, names


def with_pattern(**settings: object) -> Amqp10Dialogue:
    client = Amqp10Dialogue()
    words = read_settings("queue", "orders.*", {name.replace("_", "-"): value for name, value in settings.items()})
    client.driver.broker.table.set("queue", "orders.*", COMMAND, words)
    return client


@pytest.mark.parametrize("address", ["/queues/orders.new", "orders.new"])
@pytest.mark.parametrize("sends", [True, False])
def test_queue_of_a_pattern_is_created_with_the_settings_of_its_name(address: str, sends: bool) -> None:
    client = with_pattern(auto_create=True, capacity_messages=7)
    heard = client.attach_sender(address) if sends else client.attach_receiver(address)
    assert names(heard)[0] == "attach"
    queue = client.driver.broker.vhosts["/"].queues["orders.new"]
    assert (queue.durable, queue.thresholds.capacity.messages) == (True, 7)


def test_nothing_else_is_created() -> None:
    client = with_pattern(auto_create="true")
    for handle, address in enumerate(("/queues/others", "/exchanges/orders.new/key", "orders")):
        _, detached = client.attach_sender(address, handle)
        assert condition(detached) == "amqp:not-found"
    assert client.driver.broker.vhosts["/"].queues == {}


def test_exchange_of_that_name_is_not_shadowed() -> None:
    client = with_pattern(auto_create=True)
    client.driver.broker.vhosts["/"].declare_exchange("orders.new", "topic", {}, False, False, False)
    client.attach_sender("orders.new")
    assert client.driver.broker.vhosts["/"].queues == {}


def test_value_is_true_or_false() -> None:
    with pytest.raises(PreconditionFailed, match="auto-create=maybe is neither true nor false"):
        read_settings("queue", "#", {"auto-create": "maybe"})
