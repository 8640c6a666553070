"""Limits of users and virtual hosts: RabbitMQ's codes and words, over both versions of AMQP."""

from __future__ import annotations

import pytest

from penstock.driver.driver import BrokerDriver
from penstock.errors import NotAllowed, PreconditionFailed
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.handshakes import ask, connect


def test_connections_of_a_user_are_limited(driver: BrokerDriver) -> None:
    driver.broker.access.set_user_limits("guest", {"max-connections": 1})
    first, answer = connect(driver)
    assert answer[0] == "connection.open-ok"
    said = "NOT_ALLOWED - connection refused for user 'guest': user connection limit (1) is reached"
    assert connect(driver)[1] == ("connection.close", 530, said)
    driver.disconnect(first)
    assert connect(driver)[1][0] == "connection.open-ok"


def test_connections_of_a_virtual_host_are_limited(driver: BrokerDriver) -> None:
    driver.broker.access.set_vhost_limits("/", {"max-connections": 0})
    said = "NOT_ALLOWED - access to vhost '/' refused for user 'guest': connection limit (0) is reached"
    assert connect(driver)[1] == ("connection.close", 530, said)
    driver.broker.access.set_vhost_limits("/", {"max-connections": -1})
    assert connect(driver)[1][0] == "connection.open-ok"


def test_channel_limit_of_a_user_counts_all_connections(driver: BrokerDriver) -> None:
    driver.broker.access.set_user_limits("guest", {"max-channels": 2})
    one, other = connect(driver)[0], connect(driver)[0]
    assert ask(one, method_frame(1, spec.CHANNEL_OPEN))[0] == "channel.open-ok"
    assert ask(other, method_frame(1, spec.CHANNEL_OPEN))[0] == "channel.open-ok"
    assert ask(one, method_frame(1, spec.CHANNEL_CLOSE, reply_code=200, reply_text=""))[0] == "channel.close-ok"
    assert ask(other, method_frame(2, spec.CHANNEL_OPEN))[0] == "channel.open-ok"
    assert ask(one, method_frame(1, spec.CHANNEL_OPEN)) == (
        "connection.close",
        530,
        "NOT_ALLOWED - number of channels opened for user 'guest' has reached the maximum allowed user limit of (2)",
    )


def test_lowered_limit_closes_no_connection(driver: BrokerDriver) -> None:
    one, other = connect(driver)[0], connect(driver)[0]
    driver.broker.access.set_user_limits("guest", {"max-connections": 1, "max-channels": 1})
    assert not one.is_closing()
    assert not other.is_closing()


def test_queues_of_a_virtual_host_are_limited(driver: BrokerDriver) -> None:
    vhost = driver.broker.vhosts["/"]
    driver.broker.access.set_vhost_limits("/", {"max-queues": 1})
    vhost.declare_queue("a", {}, False, False, None, None)
    vhost.declare_queue("a", {}, False, False, None, None)
    with pytest.raises(PreconditionFailed) as refused:
        vhost.declare_queue("b", {}, False, False, None, None)
    assert str(refused.value) == "cannot declare queue 'b': queue limit in vhost '/' (1) is reached"
    driver.broker.delete_queue(vhost.queues["a"])
    vhost.declare_queue("b", {}, False, False, None, None)


def test_session_of_amqp10_counts_as_a_channel(driver: BrokerDriver) -> None:
    driver.broker.access.set_user_limits("guest", {"max-channels": 1})
    connection = connect(driver)[0]
    ask(connection, method_frame(1, spec.CHANNEL_OPEN))
    with pytest.raises(NotAllowed, match="number of channels opened for user 'guest'"):
        driver.services.open_connections.check_channels(connection)
