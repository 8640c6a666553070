"""The longest duration, 2**53 ms: accepted by each interface and store; longer ones are refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker

from penstock.settings.table import MILLISECONDS_MAX
from penstock.sync import connect
from tests.support.brokers import BrokerProcess, penstock_command, serving, settings_file
from tests.support.http_client import Web
from tests.support.pika_helpers import take

MOST, MORE = MILLISECONDS_MAX, MILLISECONDS_MAX + 1000
"""A client in between that counts in float seconds keeps the difference."""
PRODUCT = '[broker]\nrabbitmq-version = "4.2.0"\n'
"""RabbitMQ's client of AMQP 1.0 works with no other."""


def by_amqp091(broker: BrokerProcess, queue: str, ms: int) -> bool:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        try:
            connection.channel().queue_declare(
                queue, durable=True, arguments={"x-message-ttl": ms, "x-expires": ms, "x-queue-type": "quorum"}
            )
        except ChannelClosedByBroker as error:
            return error.reply_code != 406
    return True


def by_amqp10(broker: BrokerProcess, queue: str, ms: int) -> bool:
    client = pytest.importorskip("rabbitmq_amqp_python_client", reason="Qpid Proton could not be built")
    environment = client.Environment(uri=broker.url)
    connection = environment.connection()
    connection.dial()
    time = timedelta(milliseconds=ms)
    try:
        connection.management().declare_queue(
            client.ClassicQueueSpecification(name=queue, message_ttl=time, auto_expires=time)
        )
    except client.ValidationCodeException as error:
        return "400" not in str(error)
    finally:
        environment.close()
    return True


def by_command(broker: BrokerProcess, queue: str, ms: int) -> bool:
    words = ("--durable", f"message-ttl={ms}", f"expires={ms}", f"consumer-timeout={ms}")
    return penstock_command("declare", "queue", queue, *words, "--url", broker.url).returncode == 0


def by_pattern(broker: BrokerProcess, queue: str, ms: int) -> bool:
    words = (f"message-ttl={ms}", f"expires={ms}", f"hold-deadline={ms / 1000}", f"cursor-max-lag-age={ms / 1000}")
    done = penstock_command("set", "queue", queue, *words, "--url", broker.url)
    return done.returncode == 0 and plain_queue(broker, queue)


def by_http(broker: BrokerProcess, queue: str, ms: int) -> bool:
    body = {"durable": True, "arguments": {"x-message-ttl": ms, "x-expires": ms}}
    return Web(broker.http).ask("PUT", f"/queues/%2F/{queue}", body).status == 201


def by_policy(broker: BrokerProcess, queue: str, ms: int) -> bool:
    body = {"pattern": f"^{queue}$", "definition": {"message-ttl": ms, "expires": ms}, "apply-to": "queues"}
    return Web(broker.http).ask("PUT", f"/policies/%2F/{queue}", body).status == 201 and plain_queue(broker, queue)


def by_operator_policy(broker: BrokerProcess, queue: str, ms: int) -> bool:
    body = {"pattern": f"^{queue}$", "definition": {"message-ttl": ms, "expires": ms}, "apply-to": "queues"}
    made = Web(broker.http).ask("PUT", f"/operator-policies/%2F/{queue}", body).status == 201
    return made and plain_queue(broker, queue)


def by_definitions(broker: BrokerProcess, queue: str, ms: int) -> bool:
    entry = {"name": queue, "vhost": "/", "durable": True, "arguments": {"x-message-ttl": ms, "x-expires": ms}}
    return Web(broker.http).ask("POST", "/definitions", {"queues": [entry]}).status == 204


def plain_queue(broker: BrokerProcess, queue: str) -> bool:
    return penstock_command("declare", "queue", queue, "--durable", "--url", broker.url).returncode == 0


DOORS: list[Callable[[BrokerProcess, str, int], bool]] = [
    by_amqp091,
    by_amqp10,
    by_command,
    by_pattern,
    by_http,
    by_policy,
    by_operator_policy,
    by_definitions,
]


def publish(broker: BrokerProcess, queue: str, expiration: int) -> bool:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        properties = pika.BasicProperties(delivery_mode=2, expiration=str(expiration))
        try:
            channel.basic_publish("", queue, b"for long", properties)
        except ChannelClosedByBroker as error:
            return error.reply_code != 406
    return True


@pytest.mark.slow
def test_longest_duration_comes_in_by_every_door_and_outlives_a_restart(tmp_path: Path, store: tuple[str, ...]) -> None:
    options = (*store, "--http", "127.0.0.1:0", *settings_file(tmp_path, PRODUCT))
    names = [door.__name__ for door in DOORS]
    with serving(tmp_path, *options) as broker:
        for door in DOORS:
            assert not door(broker, door.__name__, MORE), door.__name__
            assert door(broker, door.__name__, MOST), door.__name__
            assert publish(broker, door.__name__, MOST)
        assert not publish(broker, names[0], MORE)
        assert Web(broker.http).publish(names[0], properties={"expiration": str(MOST), "delivery_mode": 2}).json == {
            "routed": True
        }
        before = {name: shown(broker, name) for name in names}
    with serving(tmp_path, *options) as broker:
        assert {name: shown(broker, name) for name in names} == before
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            for name in names:
                properties, _, body = take(connection.channel(), name)
                assert (properties.expiration, body) == (str(MOST), b"for long")
        assert "Traceback" not in broker.log()
    for found in before.values():
        assert (found["message-ttl"], found["expires"]) == (MOST, MOST), found
    assert before["by_command"]["consumer-timeout"] == MOST
    assert before["by_pattern"]["hold-deadline"] == before["by_pattern"]["cursor-max-lag-age"] == MOST / 1000


def shown(broker: BrokerProcess, queue: str) -> dict[str, Any]:
    with connect(broker.url, protocol="amqp091") as control:
        return {each["setting"]: each["value"] for each in control.show("queue", queue)}
