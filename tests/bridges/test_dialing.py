"""Options of a bridge's connections from URIs, RabbitMQ's among them."""

from __future__ import annotations

import socket

import pytest

from penstock.bridges.dialing import HEARTBEAT_S, options_of
from penstock.client.options import Options
from penstock.errors import ConfigError


async def dial() -> socket.socket:
    raise NotImplementedError


def read(uri: str, **given: object) -> Options:
    return options_of(uri, "source", "shovel orders", "ada", dial, **given)


@pytest.mark.parametrize(("uri", "vhost"), [("amqp://", "/"), ("amqp:///%2f", "/"), ("amqp:///eu", "eu")])
def test_uri_without_a_host_is_this_broker_by_the_bridge_s_user(uri: str, vhost: str) -> None:
    options = read(uri)
    assert (options.virtual_host, options.user, options["mechanism"]) == (vhost, "ada", "EXTERNAL")
    assert options.dial is dial
    assert options["name"] == "shovel orders"
    assert not options["reconnect"]


def test_uri_with_a_host_keeps_its_user_and_gets_short_heartbeats() -> None:
    options = read("amqp://shop:secret@old:5673/vh", protocol="amqp091")
    assert (options.user, options.password, str(options.hosts[0]), options.virtual_host) == (
        "shop", "secret", "old:5673", "vh",
    )  # fmt: skip
    assert (options["heartbeat"], options["protocol"], options.dial) == (HEARTBEAT_S, "amqp091", None)
    assert read("amqp://old?heartbeat=9")["heartbeat"] == 9


def test_parameters_of_rabbitmq_are_options_of_the_client() -> None:
    options = read("amqp://old/?connection_timeout=2500&channel_max=5&auth_mechanism=external&idle_time_out=7000")
    assert (options["connect_timeout"], options["mechanism"], options["heartbeat"]) == (2.5, "EXTERNAL", 7)
    assert read("amqp://old/?sasl=anon").user == ""
    assert read("amqps://old/?verify=verify_none&server_name_indication=disable&fail_if_no_peer_cert=false").tls


@pytest.mark.parametrize(
    ("query", "rule"),
    [
        ("connection_timeout=soon", "connection_timeout of a URI is a number of milliseconds"),
        ("auth_mechanism=magic", "auth_mechanism of a URI is plain, amqplain, external"),
        ("server_name_indication=other", "server_name_indication of a URI is not served"),
        ("colour=red", "no option 'colour'"),
    ],
)
def test_parameter_that_is_not_served_is_named_without_the_uri(query: str, rule: str) -> None:
    with pytest.raises(ConfigError, match=rule) as raised:
        read(f"amqp://shop:secret@old/?{query}")
    assert str(raised.value).startswith("the source: ")
    assert "secret" not in str(raised.value)
