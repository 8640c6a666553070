"""Profiles of client libraries: their recognition and their treatment under a hold."""

from __future__ import annotations

import pytest

from penstock.connections.client_profiles import PYAMQP, UAMQP, UNKNOWN, Profile, profile_of, profile_of_sender
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite
from tests.support.amqp10_dialogue import Amqp10Dialogue, condition, data_section

OBEYS: dict[str, object] = {"channel.flow": True}


def test_unknown_client_has_the_most_cautious_profile() -> None:
    assert profile_of("", "", {}) is UNKNOWN
    assert not UNKNOWN.obeys_flow
    assert profile_of("py-amqp", "", OBEYS).small_receive_buffer
    assert profile_of("new one", "", OBEYS).obeys_flow


def test_channel_flow_with_confirms_needs_the_capability_of_the_client() -> None:
    assert profile_of("new one", "", OBEYS).flow_with_confirms
    assert not profile_of("RabbitMQ", "Java", {}).flow_with_confirms
    assert profile_of("RabbitMQ", "Java", OBEYS).flow_with_confirms
    assert not profile_of("Pika Python Client Library", "", OBEYS).flow_with_confirms
    assert not UNKNOWN.flow_with_confirms


def test_product_shared_by_several_libraries_is_identified_by_platform() -> None:
    assert profile_of("RabbitMQ", "Java", {}).obeys_flow
    assert profile_of("RabbitMQ", ".NET", {}) is UNKNOWN
    assert profile_of("RabbitMQ", "Erlang/OTP", OBEYS).obeys_flow


NAMES = {
    PYAMQP: ("sender-link-5082", "sender-link-sender-link-5082"),
    UAMQP: ("sender-link-9ed6", "us"),
    UNKNOWN: ("sender-1", "here"),
}
"""Names of a link and of its source, of a client with the container-id `us`."""


@pytest.mark.parametrize("profile", NAMES, ids=lambda profile: profile.product or "unknown")
def test_sender_is_recognised_by_the_names_of_link_and_source(profile: Profile) -> None:
    assert profile_of_sender("us", *NAMES[profile]) is profile


def test_sender_with_other_names_is_not_in_the_table() -> None:
    assert profile_of_sender("us", "sender-link-1", "sender-link-2") is UNKNOWN
    assert profile_of_sender("us", "link", "us") is UNKNOWN
    assert profile_of_sender("us", "link", None) is UNKNOWN


def azure(target: str = "/queues/q", **arguments: object) -> tuple[Amqp10Dialogue, int]:
    """Return a client as azure-servicebus, which asks for rcv-settle-mode second, and the mode of our attach."""
    client = Amqp10Dialogue().declare("q", **arguments)
    name, source = NAMES[PYAMQP]
    heard = client.attach_sender(target, name=name, source=composite(spec.SOURCE, address=source), rcv_settle_mode=1)
    return client, heard[0].performative.number("rcv_settle_mode", 0)


def test_outcomes_of_a_sender_that_never_settles_are_settled() -> None:
    client, mode = azure()
    (outcome,) = client.say(client.transfer(data_section(b"x")))
    assert (mode, outcome.field("settled")) == (0, True)


def test_unroutable_message_of_azure_is_rejected_with_all_fields_of_the_error() -> None:
    client, _ = azure("/exchanges/amq.topic/news")
    (rejected,) = client.say(client.transfer(data_section(b"x")))
    assert condition(rejected) == "amqp:not-found"
    error = rejected.performative.inner("state").inner("error")  # type: ignore[union-attr]
    assert error.fields["info"] == {}, "an error without it hangs its send"


def test_sender_that_answers_no_drain_is_not_asked() -> None:
    client, _ = azure()
    link = client.session(0).links.by_handle[0]
    assert not link.credit.idle.asks


@pytest.mark.parametrize("profile", NAMES, ids=lambda profile: profile.product or "unknown")
def test_sender_and_receiver_of_a_full_queue_on_the_same_connection_continue(profile: Profile) -> None:
    """AMQP 1.0 has no notice to stop at: credit holds the sender, whose connection settles what it receives."""
    client = Amqp10Dialogue().declare("q", capacity_messages=20, hold_deadline=5)
    name, source = NAMES[profile]
    client.attach_sender("/queues/q", name=name, source=composite(spec.SOURCE, address=source))
    client.attach_receiver("/queues/q", credit=200)
    sent = received = 0
    for _ in range(200):
        bodies = [b"x"] * min(client.credit_of(), 200 - sent)
        sent += len(bodies)
        deliveries = [
            each.performative.number("delivery_id") for each in client.put(*bodies) if each.name == "transfer"
        ]
        while deliveries:
            received += len(deliveries)
            heard = client.settle(deliveries[0], deliveries[-1], composite(spec.ACCEPTED))
            deliveries = [each.performative.number("delivery_id") for each in heard if each.name == "transfer"]
    assert (sent, received, client.depth("q")) == (200, 200, 0)
