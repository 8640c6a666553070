"""The part of the broker that publishers use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64, mypyc_attr

from penstock.core.consume.context import ConsumeContext

if TYPE_CHECKING:
    from penstock.access.access_table import AccessTable
    from penstock.core.journal.group import DurableChanges
    from penstock.core.publish.connection_gates import ConnectionGates
    from penstock.core.publish.credit_line import CreditLine
    from penstock.core.publish.dead_letters import LetterChores
    from penstock.core.publish.held import Lingering
    from penstock.core.publish.outbox import HoldEvent
    from penstock.core.publish.producer import Producer
    from penstock.core.publish.producer_lanes import ProducerLanes
    from penstock.core.publish.waiting_publisher import WaitingPublisher
    from penstock.core.queue.cursor_state import PinnedRooms
    from penstock.core.routing.route import Route
    from penstock.core.teardown import Teardowns
    from penstock.errors import BrokerError
    from penstock.flow.pool import Pools
from penstock.flow.gate import Gate


@mypyc_attr(allow_interpreted_subclasses=True)
class PublishContext(ConsumeContext):
    """The calls for publishers, in addition to those for queues and consumers. The broker implements it."""

    access: AccessTable
    """Users, permissions and limits."""
    durable_changes: DurableChanges
    dead_letters: LetterChores
    pools: Pools
    """Pools that users and virtual hosts share."""
    closed_session_budget: Lingering
    endings: Teardowns
    credits: CreditLine
    pinned_rooms: PinnedRooms
    producer_lanes: ProducerLanes
    hold_events: list[HoldEvent] | None
    """Events of waiting publishes since the driver last took events; None unless holds are traced."""

    def add_producer(self, origin: ConnectionGates, producer: Producer) -> None:
        """Add a producer to a connection."""
        raise NotImplementedError

    def run_waiting(self) -> None:
        """Run turns of waiting producers before a new publish is handled."""
        raise NotImplementedError

    def apply_gate_transitions(self) -> None:
        """Emit gate transitions, and release the producers of gates that opened."""
        raise NotImplementedError

    def schedule_confirms(self, producer: Producer) -> None:
        """Schedule a producer whose confirms can be sent."""
        raise NotImplementedError

    def emit_blocked(self, producer: WaitingPublisher, gate: Gate) -> None:
        """Emit that a producer met a closed gate."""
        raise NotImplementedError

    def emit_unblocked(self, producer: WaitingPublisher, gate: Gate) -> None:
        """Emit that a gate no longer blocks a producer."""
        raise NotImplementedError

    def emit_stopped(self, producer: WaitingPublisher, gate: Gate, hold_deadline_s: float) -> None:
        """Emit that a producer has waited a whole hold deadline (seconds) at a closed gate."""
        raise NotImplementedError

    def emit_publish_refused(
        self, producer: WaitingPublisher, gate: Gate, cause: str, charge: i64, why: str, messages: i64 = 1
    ) -> None:
        """Emit a refused publish; consecutive refusals of one producer share an effect."""
        raise NotImplementedError

    def emit_confirmed_late(self, producer: WaitingPublisher, gate: Gate, messages: int) -> None:
        """Emit confirms that were sent at their deadline."""
        raise NotImplementedError

    def emit_close_session(self, producer: Producer, error: BrokerError) -> None:
        """Emit that a producer's session must be closed."""
        raise NotImplementedError

    def emit_departed(self, producer: Producer) -> None:
        """Emit the end of a producer that had held publishes when its session closed."""
        raise NotImplementedError

    def count_unroutable(self, producer: Producer, route: Route, content: bytes) -> None:
        """Count an unroutable message; a mandatory message is returned."""
        raise NotImplementedError

    def emit_returned(self, producer: Producer, route: Route, content: bytes, refused: BrokerError) -> None:
        """Emit the return of a mandatory message that a queue refused."""
        raise NotImplementedError
