"""Client libraries and what they bear, one row each: the lever that holds a client is chosen from this table.

A client says in `client-properties` what it is. What holds all of them: in confirm mode their confirmations, and
connection.blocked where they announce that they understand it (none of them stops publishing for it). What differs is
here. Each row was measured, and is kept true by tests/clients/test_holding.py and test_profiles.py, which drive every
one of them; docs/clients.md has the rest of what was seen.
"""

from __future__ import annotations

from typing import Final

FLOW_CAPABILITY: Final = "channel.flow"
"""What a client announces in its capabilities if it stops publishing when it is told to by channel.flow."""


class Profile:
    """What one client library needs when it is held."""

    def __init__(
        self,
        product: str,
        platform: str = "",
        small_receive_buffer: bool = False,
        obeys_flow: bool = False,
        return_is_success: bool = False,
    ) -> None:
        self.product = product
        """Its `product` in client-properties."""
        self.platform = platform
        """Its `platform`, where several libraries call themselves by one product; empty where one does."""
        self.small_receive_buffer = small_receive_buffer
        """Its socket dies when its peer's window stays shut for about a second: with a small receive buffer on our
        side every pulse opens the window, with a large one it would take many."""
        self.obeys_flow = obeys_flow
        """It stops publishing on channel.flow(active=false). To all others it is never sent: some go on as if nothing
        had been said, some take it for the answer to a call and break."""
        self.return_is_success = return_is_success
        """It ends a publish without an error when the message comes back, unless it was told otherwise, and ignores the
        nack that follows: what is refused is not returned to it."""


UNKNOWN: Final = Profile("")
"""A client that is not in the table: what all bear."""

PROFILES: Final[dict[str, Profile]] = {
    profile.product: profile
    for profile in (
        # Logs channel.flow, does not answer, and goes on.
        Profile("Pika Python Client Library"),
        # Takes channel.flow for the answer to its next call; aio-pika is on it, whose publishes are all mandatory.
        Profile("aiormq", return_is_success=True),
        # TCP_USER_TIMEOUT of 1,000 ms; answers channel.flow and goes on. kombu and Celery publish through it.
        Profile("py-amqp", small_receive_buffer=True),
        # Answers channel.flow and goes on.
        Profile("AMQPStorm"),
        # Node's amqplib: channel.flow ends its connection, for it takes it for an answer and waits for none.
        Profile("amqplib"),
        # RabbitMQ's Java client: answers channel.flow, and whoever publishes on that channel waits. RabbitMQ's clients
        # for .NET and Erlang call themselves so too, and were not measured.
        Profile("RabbitMQ", platform="Java", obeys_flow=True),
        # librabbitmq: reads nothing while it publishes; does not announce connection.blocked.
        Profile("rabbitmq-c"),
    )
}


def profile_of(product: str, platform: str, capabilities: dict[str, object]) -> Profile:
    """Return the row of a client, by what it calls itself and what it announces."""
    found = PROFILES.get(product, UNKNOWN)
    if found.platform and found.platform != platform:
        found = UNKNOWN
    if capabilities.get(FLOW_CAPABILITY) is True and not found.product:
        return Profile(product, obeys_flow=True)
    return found
