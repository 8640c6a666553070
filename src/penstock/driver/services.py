"""Services of the driver for the connections: the interface of protocols/common/services.py."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

from penstock.core.queue.queue import Queue
from penstock.core.vhost import VirtualHost
from penstock.flow.work import Steps
from penstock.protocols.common.connection import Connection
from penstock.protocols.common.log_line import LogLine
from penstock.protocols.common.login_backoff import Backoff
from penstock.protocols.common.partial_messages import PartialMessages
from penstock.protocols.common.pending_logins import PendingLogins
from penstock.protocols.common.services import Services

if TYPE_CHECKING:
    from penstock.driver.driver import BrokerDriver


class DriverServices(Services):
    """Services of one driver."""

    def __init__(self, driver: BrokerDriver, seed: str, version: str) -> None:
        self._driver = driver
        self.broker = driver.broker
        self.connection_limits = driver.connection_limits
        self.backoff = Backoff(driver.users.names())
        self.version = version
        self.logins = PendingLogins(self)
        self.partial_messages = PartialMessages(self)
        self._seed: bytes = seed.encode()
        self._names: int = 0
        self._without_effect: set[str] = set()

    def login_refusal(self, user: str, password: str, loopback: bool) -> str:
        """See `Services.login_refusal`."""
        return self._driver.users.refusal(user, password, loopback)

    def log(self, line: LogLine | str) -> None:
        """See `Services.log`."""
        self._driver.log(line)

    def log_refusal(self, kind: str, text: str) -> None:
        """See `Services.log_refusal`."""
        self._driver.log_refusal(kind, text)

    def log_without_effect(self, argument: str) -> None:
        """See `Services.log_without_effect`."""
        if argument not in self._without_effect:
            self._without_effect.add(argument)
            self.log(f"argument {argument} of a queue is accepted and has no effect: queues are stored in one way")

    def deliver(self) -> bool:
        """See `Services.deliver`."""
        return self._driver.deliver()

    def deliver_first(self, queue: Queue) -> None:
        """See `Services.deliver_first`."""
        self._driver.deliver_first(queue)

    def dispatch_effects(self) -> None:
        """See `Services.dispatch_effects`."""
        self._driver.notifier.dispatch_effects()

    def start_asking(self, steps: Steps[None], connection: Connection | None = None) -> None:
        """See `Services.start_asking`."""
        self._driver.scheduler.start_asking(steps, connection)

    def schedule_flush(self, connection: Connection) -> None:
        """See `Services.schedule_flush`."""
        self._driver.touched.append(connection)

    def schedule_blocked_notice(self, connection: Connection) -> None:
        """See `Services.schedule_blocked_notice`."""
        self._driver.notifier.schedule_blocked_notice(connection)

    def schedule_loss_report(self, connection: Connection) -> None:
        """See `Services.schedule_loss_report`."""
        self._driver.notifier.schedule_loss_report(connection)

    def report_silent(self, connection: Connection) -> None:
        """See `Services.report_silent`."""
        self._driver.silent.append(connection)

    def control_request(self, vhost: VirtualHost, connection: Connection, operation: str, content: bytes) -> None:
        """See `Services.control_request`."""
        self._driver.control.request(vhost, connection, operation, content)

    def make_name(self, prefix: str) -> str:
        """See `Services.make_name`: in RabbitMQ's form; the seed makes it hard to guess, also from other names."""
        self._names += 1
        digest = hashlib.blake2b(b"%d" % self._names, digest_size=16, key=self._seed).digest()
        return f"{prefix}-{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"

    def block_reason(self, connection: Connection) -> str:
        """See `Services.block_reason`."""
        return self._driver.notifier.block_reason(connection)
