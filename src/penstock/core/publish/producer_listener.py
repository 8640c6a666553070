"""The client side of a producer, which a protocol implements. The defaults are for a producer without a client.

The driver calls `on_confirms`, `on_credit`, `on_returned`, `on_closed`, `on_blocked`, `on_unblocked` and `on_departed`
at the end of a turn, outside of all changes of the core: they may write output, and act on the producer and the broker.
The producer calls `publish_error` and `on_held` in the middle of a publish: these may only log, and change the listener
itself.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from penstock.core.publish.outbox import Held
from penstock.core.routing.route import Route
from penstock.errors import BrokerError
from penstock.flow.gate import Gate


@mypyc_attr(allow_interpreted_subclasses=True)
class ProducerListener:
    """The client of one producer."""

    def __init__(self, connection_number: int = 0) -> None:
        self.connection_number = connection_number
        """Number of the connection; 0 without one."""

    # At the end of a turn, called by the driver

    def on_confirms(self) -> None:
        """Take the outcomes that are ready (`producer.confirms.take`) and write them; by default outcomes stay
        there.
        """

    def on_credit(self) -> None:
        """Write the client's changed credit (`SenderCredit.credit`); by default nothing."""

    def on_returned(self, route: Route, content: bytes, refused: BrokerError | None) -> None:
        """Return a mandatory message that a queue refused with this error, or that reached no queue; by default the
        message is dropped.
        """

    def on_closed(self, error: BrokerError) -> None:
        """Close the session with this error; by default nothing. The driver has logged it."""

    def on_blocked(self, gate: Gate) -> bool:
        """Handle that a gate blocks the producer; return whether the block is logged, by default always."""
        return True

    def on_unblocked(self, gate: Gate) -> bool:
        """Handle that a gate no longer blocks the producer; return whether the end is logged, by default always."""
        return True

    def on_departed(self) -> None:
        """Count `producer.loss`: all publishes held when the session closed are decided; by default nothing."""

    # In the middle of a publish, called by the producer

    def publish_error(self) -> BrokerError | None:
        """Return the error that closes the session instead of a publish on the slow path; None by default."""
        return None

    def on_held(self, held: Held) -> None:
        """Handle that a publish or a commit has been held; by default nothing."""


NO_CLIENT: Final = ProducerListener()
"""The listener of publishers without a client: dead letters, and producers whose caller takes their outcomes."""
