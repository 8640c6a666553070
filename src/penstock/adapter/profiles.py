"""Client libraries and what they bear, one row each: the lever that holds a client is chosen from this table.

A client says in `client-properties` what it is. Each row was measured, and is kept true by the test it names.
"""

from __future__ import annotations

from typing import Final


class Profile:
    """What one client library needs when it is held."""

    def __init__(self, product: str, small_receive_buffer: bool) -> None:
        self.product = product
        """Its `product` in client-properties."""
        self.small_receive_buffer = small_receive_buffer
        """Its socket dies when its peer's window stays shut for about a second: with a small receive buffer on our
        side every pulse opens the window, with a large one it would take many."""


UNKNOWN: Final = Profile("", small_receive_buffer=False)
"""A client that is not in the table: what all bear."""

PROFILES: Final[dict[str, Profile]] = {
    profile.product: profile
    for profile in (
        # TCP_USER_TIMEOUT of 1,000 ms. tests/clients/test_py_amqp.py; kombu and Celery publish through it.
        Profile("py-amqp", small_receive_buffer=True),
    )
}


def profile_of(product: str) -> Profile:
    """Return the row of a client, by what it calls itself."""
    return PROFILES.get(product, UNKNOWN)
