"""Client profiles: one row per client library with its tolerances, from which the way to block it is chosen.

A client of AMQP 0-9-1 sends its product in `client-properties`. Publisher confirms block every client.
connection.blocked goes to clients that announce the capability, if it stops only their publishes. In RabbitMQ the
notice means that the broker stops reading, so some libraries stop writing, even acknowledgements
(`Profile.stops_writing`). Libraries of AMQP 1.0 announce neither a product nor tolerances, so a sender is recognised by
the names of its links.

The table has the differences. Rows were measured, or read in the library's source where docs/clients.md says so;
tests/clients checks them by driving each available library. docs/clients.md has the other observations.
"""

from __future__ import annotations

from typing import Final

FLOW_CAPABILITY: Final = "channel.flow"
"""Capability announced by clients that stop publishing on channel.flow."""
EXACT_FLOW: Final = "penstock.exact-flow"
"""Capability announced by clients that stop on channel.flow until it ends, with a time-out of their own.

On channels of such clients with confirms, a message is confirmed as soon as it is in its queues (decision 105).
"""
SENDER_LINK: Final = "sender-link-"
"""Prefix of link names that Azure's libraries generate."""
AMQP_0_9_1: Final = "AMQP 0-9-1"
AMQP_1_0: Final = "AMQP 1.0"
PRODUCER_LANES: Final = "penstock.producer-lanes"
"""Capability of the broker: the control operation `producer.begin` for channels with confirms (decision 106)."""


class Profile:
    """Properties of one client library that matter for sending to it or blocking it."""

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
        """`product` in the client-properties (AMQP 0-9-1), or the name of the library (AMQP 1.0)."""
        self.protocol = protocol
        self.platform = platform
        """`platform` in the client-properties, if several libraries share one product; else empty."""
        self.small_receive_buffer = small_receive_buffer
        """True if the client's socket needs a small receive buffer at the broker.

        The socket fails when the broker's window stays closed for about a second. With a small buffer every pulse opens
        the window; with a large buffer many pulses are needed.
        """
        self.obeys_flow = obeys_flow
        """True if the client stops on channel.flow(active=false).

        Only such clients get channel.flow: some fail on it.
        """
        self.return_is_success = return_is_success
        """True if the client treats a returned message as published, and ignores a nack: it gets no refused message
        back."""
        self.flow_with_confirms = flow_with_confirms
        """True if channel.flow is for channels with confirms too: the client has announced the capability.

        RabbitMQ's Java client does not announce it by default. The ConfirmListener of that client runs in the reading
        thread: a listener that publishes would wait for itself.
        """
        self.exact_flow = exact_flow
        """True if confirms are never withheld, and the client is never asked to resume while a gate is closed."""
        self.stops_writing = stops_writing
        """True if the client may write nothing after connection.blocked: no acknowledgement, request or heartbeat.

        Unknown libraries are assumed to stop. Such a client gets the notice only while it does nothing but publish
        without confirms.
        """
        self.fails_when_blocked = fails_when_blocked
        """True if publishes of the client fail after connection.blocked: it never gets the notice."""
        self.settles = settles
        """True if the client settles deliveries after their outcome, as rcv-settle-mode second asks of a sender.

        Other clients wait forever for the broker to settle. Links of such clients are answered with the mode first.
        """
        self.hears_released = hears_released
        """True if the client learns of a released message. For other clients an unroutable message is rejected."""
        self.answers_drain = answers_drain
        """True if the client's sender may give credit back when it is asked to drain; other clients are not asked."""


UNKNOWN: Final = Profile("")
"""Profile of a client that is not in the table: only methods that all clients tolerate."""
PYAMQP: Final = Profile("azure-servicebus", AMQP_1_0, settles=False, hears_released=False, answers_drain=False)
"""The engine inside azure-servicebus: its sender fails in a callback when a message was released, and keeps waiting.

The engine ignores credit: a message without credit is held.
"""
UAMQP: Final = Profile("uamqp", AMQP_1_0, settles=False, answers_drain=False)
"""uamqp, on azure-uamqp-c: resends a message whose outcome was not settled in time."""

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
        # Node's amqplib: channel.flow ends its connection, because it is mistaken for an unexpected reply.
        Profile("amqplib", stops_writing=False),
        # RabbitMQ's Java client: answers channel.flow; publishers on that channel wait. RabbitMQ's clients
        # for .NET and Erlang use the same product name; they were not measured.
        Profile("RabbitMQ", platform="Java", obeys_flow=True, stops_writing=False),
        # librabbitmq: reads nothing while it publishes; does not announce connection.blocked.
        Profile("rabbitmq-c", stops_writing=False),
        # amqp091-go and Bunny report connection.blocked to their application, and continue.
        Profile("AMQP 0.9.1 Client", stops_writing=False),
        Profile("Bunny", stops_writing=False),
        # Node's rabbitmq-client corks its socket at connection.blocked.
        Profile("rabbitmq-client"),
        # Rust's lapin: its loop writes nothing while the connection is blocked.
        Profile("lapin"),
        # php-amqplib: each publish throws while the connection is blocked.
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
