"""Client profiles: one row per client library with its tolerances, from which the way to hold it is chosen.

A client of AMQP 0-9-1 names itself in `client-properties`. Publisher confirms hold every client. connection.blocked
goes to those that announce the capability, if nothing but publishes stops by it. In RabbitMQ the notice means that the
broker reads nothing any more, so some libraries write nothing any more, not even acknowledgements
(`Profile.stops_writing`). Libraries of AMQP 1.0 name neither themselves nor their tolerances, so a sender is known by
the names it gives its links.

The table holds the differences. Rows were measured, or read in the library's source where docs/clients.md says so;
tests/clients keeps them true by driving each library that can be had. docs/clients.md has the other observations.
"""

from __future__ import annotations

from typing import Final

FLOW_CAPABILITY: Final = "channel.flow"
"""Capability announced by clients that stop publishing on channel.flow."""
EXACT_FLOW: Final = "penstock.exact-flow"
"""Capability announced by clients that stop on channel.flow for as long as it lasts, with a time-out of their own.

On their channels with confirms what enters a queue is confirmed at once (decision 105).
"""
SENDER_LINK: Final = "sender-link-"
"""Beginning of names that the libraries of Azure make for their links."""
AMQP_0_9_1: Final = "AMQP 0-9-1"
AMQP_1_0: Final = "AMQP 1.0"
PRODUCER_LANES: Final = "penstock.producer-lanes"
"""Capability of the broker: the control operation `producer.begin` for channels with confirms (decision 106)."""


class Profile:
    """Properties of one client library that matter while it sends or is held."""

    def __init__(
        self,
        product: str,
        protocol: str = AMQP_0_9_1,
        platform: str = "",
        small_receive_buffer: bool = False,
        obeys_flow: bool = False,
        return_is_success: bool = False,
        flow_with_confirms: bool = False,
        exact_flow: bool = False,
        stops_writing: bool = True,
        fails_when_blocked: bool = False,
        settles: bool = True,
        hears_released: bool = True,
        answers_drain: bool = True,
    ) -> None:
        self.product = product
        """`product` in its client-properties (AMQP 0-9-1), or the name of the library (AMQP 1.0)."""
        self.protocol = protocol
        self.platform = platform
        """`platform` in its client-properties, where several libraries share one product; else empty."""
        self.small_receive_buffer = small_receive_buffer
        """True if its socket needs a small receive buffer on our side.

        The socket fails when the peer's window stays closed for about a second. With a small buffer every pulse opens
        the window; with a large one that takes many pulses.
        """
        self.obeys_flow = obeys_flow
        """True if it stops on channel.flow(active=false). Others never get it: some fail on it."""
        self.return_is_success = return_is_success
        """True if it treats a returned message as published, and ignores a nack: it gets no refused message back."""
        self.flow_with_confirms = flow_with_confirms
        """True if channel.flow is for its channels with confirms too: it has announced the capability.

        RabbitMQ's Java client does not by itself. Its ConfirmListener runs in the thread that reads: one that publishes
        would wait for itself.
        """
        self.exact_flow = exact_flow
        """True if its confirms are never withheld, and the broker never asks it to resume while a gate is closed."""
        self.stops_writing = stops_writing
        """True if it may write nothing after connection.blocked: no acknowledgement, request or heartbeat.

        So it is assumed of unknown libraries. Such a client gets the notice only while it does nothing but publish
        without confirms.
        """
        self.fails_when_blocked = fails_when_blocked
        """True if its publishes fail after connection.blocked: it never gets the notice."""
        self.settles = settles
        """True if it settles deliveries when it has heard their outcome, as rcv-settle-mode second asks of a sender.

        Others wait for ever for us to settle. Their links are answered with the mode first.
        """
        self.hears_released = hears_released
        """True if it learns that a message was released. To others an unroutable message is rejected."""
        self.answers_drain = answers_drain
        """True if its sender may give credit back when it is asked to drain; others are not asked."""


UNKNOWN: Final = Profile("")
"""Profile of a client that is not in the table: the means that all clients tolerate."""
PYAMQP: Final = Profile("azure-servicebus", AMQP_1_0, settles=False, hears_released=False, answers_drain=False)
"""The engine inside azure-servicebus: its sender fails in a callback when a message was released, and waits on. It
takes no notice of credit: a message without it is held."""
UAMQP: Final = Profile("uamqp", AMQP_1_0, settles=False, answers_drain=False)
"""uamqp, on azure-uamqp-c: sends a message again whose outcome was not settled in time."""

PROFILES: Final[dict[str, Profile]] = {
    profile.product: profile
    for profile in (
        # Logs channel.flow, does not answer, and continues to publish.
        Profile("Pika Python Client Library", stops_writing=False),
        # Takes channel.flow for the reply to its next call. aio-pika uses it, and all publishes of aio-pika are
        # mandatory.
        Profile("aiormq", return_is_success=True, stops_writing=False),
        # TCP_USER_TIMEOUT of 1,000 ms; answers channel.flow and continues to publish. kombu and Celery use it.
        Profile("py-amqp", small_receive_buffer=True, stops_writing=False),
        # Answers channel.flow and continues to publish.
        Profile("AMQPStorm", stops_writing=False),
        # Node's amqplib: channel.flow ends its connection, because it takes it for an unexpected reply.
        Profile("amqplib", stops_writing=False),
        # RabbitMQ's Java client: answers channel.flow; publishers on that channel wait. RabbitMQ's clients
        # for .NET and Erlang use the same product name; they were not measured.
        Profile("RabbitMQ", platform="Java", obeys_flow=True, stops_writing=False),
        # librabbitmq: reads nothing while it publishes; does not announce connection.blocked.
        Profile("rabbitmq-c", stops_writing=False),
        # amqp091-go and Bunny tell their application of connection.blocked, and go on.
        Profile("AMQP 0.9.1 Client", stops_writing=False),
        Profile("Bunny", stops_writing=False),
        # Node's rabbitmq-client corks its socket at connection.blocked.
        Profile("rabbitmq-client"),
        # Rust's lapin: its loop writes nothing while it is blocked.
        Profile("lapin"),
        # php-amqplib: each publish throws while it is blocked.
        Profile("AMQPLib", fails_when_blocked=True),
        PYAMQP,
        UAMQP,
    )
}


def profile_of(product: str, platform: str, capabilities: dict[str, object]) -> Profile:
    """Return the profile of a client of AMQP 0-9-1, by its product, platform and capabilities."""
    if capabilities.get(EXACT_FLOW) is True:
        return Profile(
            product, platform=platform, obeys_flow=True, flow_with_confirms=True, exact_flow=True, stops_writing=False
        )
    profile = PROFILES.get(product, UNKNOWN)
    if profile.protocol != AMQP_0_9_1 or (profile.platform and profile.platform != platform):
        profile = UNKNOWN
    if capabilities.get(FLOW_CAPABILITY) is True and (profile.obeys_flow or not profile.product):
        return Profile(
            product, platform=platform, obeys_flow=True, flow_with_confirms=True, stops_writing=profile.stops_writing
        )
    return profile


def profile_of_sender(container: str, link: str, source: str | None) -> Profile:
    """Return the profile of a sender of AMQP 1.0, by its container-id, link and source's address."""
    if source == SENDER_LINK + link:
        return PYAMQP
    if link.startswith(SENDER_LINK) and source == container:
        return UAMQP
    return UNKNOWN
