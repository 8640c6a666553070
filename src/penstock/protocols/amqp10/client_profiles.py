"""Client profiles: client libraries of AMQP 1.0 for which the broker does something otherwise.

Libraries name neither themselves nor their tolerances, so a sender is known by the names it gives its links. Each row
was measured; the tests of the library (tests/clients) keep it true. docs/clients.md tells how others behave.
"""

from __future__ import annotations

from typing import Final

from penstock.wire.amqp10.composite import Composite

SENDER_LINK: Final = "sender-link-"
"""Beginning of names that the libraries of Azure make for their links."""


class Profile:
    """Properties of one client library that matter while it sends."""

    def __init__(
        self, name: str, settles: bool = True, hears_released: bool = True, answers_drain: bool = True
    ) -> None:
        self.name = name
        self.settles = settles
        """True if it settles deliveries when it has heard their outcome, as rcv-settle-mode second asks of a sender.

        Others wait for ever for us to settle. Their links are answered with the mode first.
        """
        self.hears_released = hears_released
        """True if it learns that a message was released. To others an unroutable message is rejected."""
        self.answers_drain = answers_drain
        """True if its sender may give credit back when it is asked to drain; others are not asked."""


UNKNOWN: Final = Profile("")
"""Profile of a library that is not in the table: it does as the specification says."""
PYAMQP: Final = Profile("azure-servicebus", settles=False, hears_released=False, answers_drain=False)
"""The engine inside azure-servicebus: its sender fails in a callback when a message was released, and waits on. It
takes no notice of credit: a message without it is held."""
UAMQP: Final = Profile("uamqp", settles=False, answers_drain=False)
"""uamqp, on azure-uamqp-c: sends a message again whose outcome was not settled in time."""


def profile_of_sender(container: str, attach: Composite) -> Profile:
    """Return the profile of a sender by its container-id, and by the names of its link and of its source."""
    terminus = attach.inner("source")
    if terminus is None:
        return UNKNOWN
    source, link_name = terminus.text("address"), attach.text("name")
    if source == SENDER_LINK + link_name:
        return PYAMQP
    if link_name.startswith(SENDER_LINK) and source == container:
        return UAMQP
    return UNKNOWN
