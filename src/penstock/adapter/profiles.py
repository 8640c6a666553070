"""Client libraries and what they bear, one row each: the lever that holds a client is chosen from this table.

A client says in `client-properties` what it is. What holds all of them: in confirm mode their confirmations, and
connection.blocked where they announce that they understand it. What differs is here. Each row was measured, and is kept
true by the test it names.
"""

from __future__ import annotations

from typing import Final

FLOW_CAPABILITY: Final = "channel.flow"
"""What a client announces in its capabilities if it stops publishing when it is told to by channel.flow."""


class Profile:
    """What one client library needs when it is held."""

    def __init__(self, product: str, small_receive_buffer: bool = False, obeys_flow: bool = False) -> None:
        self.product = product
        """Its `product` in client-properties."""
        self.small_receive_buffer = small_receive_buffer
        """Its socket dies when its peer's window stays shut for about a second: with a small receive buffer on our
        side every pulse opens the window, with a large one it would take many."""
        self.obeys_flow = obeys_flow
        """It stops publishing on channel.flow(active=false). To all others it is never sent: some go on as if nothing
        had been said, some take it for the answer to their next call."""


UNKNOWN: Final = Profile("")
"""A client that is not in the table: what all bear."""

PROFILES: Final[dict[str, Profile]] = {
    profile.product: profile
    for profile in (
        # Logs channel.flow and goes on. tests/clients/test_pika_flow.py
        Profile("Pika Python Client Library"),
        # Takes channel.flow for the answer to its next call; aio-pika is on it. tests/clients/test_aio_pika.py
        Profile("aiormq"),
        # TCP_USER_TIMEOUT of 1,000 ms; answers channel.flow and goes on. kombu and Celery publish through it.
        # tests/clients/test_py_amqp.py, test_kombu.py, test_celery.py
        Profile("py-amqp", small_receive_buffer=True),
        # Node's amqplib: does not look at channel.flow. tests/clients/test_node.py
        Profile("amqplib"),
    )
}


def profile_of(product: str, capabilities: dict[str, object]) -> Profile:
    """Return the row of a client, by what it calls itself and what it announces."""
    found = PROFILES.get(product, UNKNOWN)
    if capabilities.get(FLOW_CAPABILITY) is True and not found.product:
        return Profile(product, obeys_flow=True)
    return found
