"""Acknowledgement timeout: closes a session whose deliveries stay unacknowledged for too long."""

from __future__ import annotations

from typing_extensions import override

from penstock.core.consume.consumer import Batch
from penstock.core.consume.session import Session
from penstock.errors import PreconditionFailed
from penstock.flow.timers import NEVER, TimerHandler
from penstock.protocols.common.services import Services


class AckTimeout(TimerHandler):
    """Timer of one session, set when the oldest delivery may be overdue (RabbitMQ's consumer timeout)."""

    def __init__(self, services: Services, session: Session) -> None:
        super().__init__()
        self._services = services
        self._session = session

    def delivered(self, batch: Batch) -> None:
        """Record deliveries. The timeout is the one that their queue has now."""
        timeout_s = batch.consumer.queue.settings.consumer_timeout_s
        self._services.broker.timers.add(self, batch.at + timeout_s)

    @override
    def on_deadline(self, now: float) -> float:
        session = self._session
        due, timeout_s = session.unsettled.first_due()
        if due > now:
            return due
        error = PreconditionFailed(
            f"delivery acknowledgement on channel {session.number} timed out. Timeout value used: "
            f"{round(timeout_s * 1000)} ms. This timeout value can be configured, see consumers doc guide to learn more"
        )
        session.fail(error)
        return NEVER
