"""Profiles of client libraries: how each of them is held."""

from __future__ import annotations

from penstock.protocols.amqp091.client_profiles import UNKNOWN, profile_of

OBEYS: dict[str, object] = {"channel.flow": True}


def test_an_unknown_client_bears_what_all_bear() -> None:
    assert profile_of("", "", {}) is UNKNOWN
    assert not UNKNOWN.obeys_flow
    assert profile_of("py-amqp", "", OBEYS).small_receive_buffer
    assert profile_of("new one", "", OBEYS).obeys_flow


def test_profile_gets_channel_flow_with_confirms_only_if_its_client_announces_the_capability() -> None:
    assert profile_of("new one", "", OBEYS).flow_with_confirms
    assert not profile_of("RabbitMQ", "Java", {}).flow_with_confirms
    assert profile_of("RabbitMQ", "Java", OBEYS).flow_with_confirms
    assert not profile_of("Pika Python Client Library", "", OBEYS).flow_with_confirms
    assert not UNKNOWN.flow_with_confirms


def test_a_product_that_several_libraries_share_is_told_apart_by_its_platform() -> None:
    assert profile_of("RabbitMQ", "Java", {}).obeys_flow
    assert profile_of("RabbitMQ", ".NET", {}) is UNKNOWN
    assert profile_of("RabbitMQ", "Erlang/OTP", OBEYS).obeys_flow
