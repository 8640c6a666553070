"""Services of a driver for its connections: logins, names, log lines, deliveries and control requests.

`DriverServices` fills in the interface of connections/services.py.
"""

from __future__ import annotations

import base64
import hashlib

from typing_extensions import override

from penstock.access.access_table import GUEST
from penstock.access.back_end import ServedUsers
from penstock.access.password_hash import ScramKeys
from penstock.access.passwords import Passwords, ScramKeyCache, access_refusal
from penstock.access.rules import CredentialCheck
from penstock.access.tokens import TokenCheck, TokenPolicy, looks_like_token
from penstock.connections.connection import Connection
from penstock.connections.connection_limits import ConnectionLimits
from penstock.connections.log_line import LogLine
from penstock.connections.login import InlineAuthenticator
from penstock.connections.login_limits import Backoff, LoginRate, OpenConnections, PendingLogins, RenewalRate
from penstock.connections.partial_messages import PartialMessages
from penstock.connections.services import Services
from penstock.core.queue.queue import Queue
from penstock.core.vhost import VirtualHost
from penstock.driver.log_queue import LogQueue
from penstock.driver.notifier import Notifier
from penstock.driver.scheduler import Scheduler
from penstock.errors import BrokerError
from penstock.flow.gate import Gate
from penstock.flow.work import Steps
from penstock.logs.ids import WITHOUT_EFFECT
from penstock.management.node import Node
from penstock.management.refusals import RefusedRequests
from penstock.operations.management_paths import ManagementPaths


class ServedDriver(Node):
    """Driver as its services use it."""

    connection_limits: ConnectionLimits
    log_queue: LogQueue
    scheduler: Scheduler
    notifier: Notifier
    refused_requests: RefusedRequests
    touched: list[Connection]
    """Connections with pending output."""
    silent: list[Connection]
    """Connections without heartbeats from their peer; the event loop closes them."""

    def deliver(self) -> bool:
        """Write deliveries; return whether there may be more after this turn's share.

        Called at the end of a turn, and before methods that end a channel or a transaction.
        """
        raise NotImplementedError

    def deliver_first(self, queue: Queue) -> None:
        """Write the deliveries of one queue, before a method that would affect messages published earlier.

        Earlier publishes are delivered to the present consumers, not to a new consumer or to basic.get. No cancel,
        purge or deletion removes them (as in RabbitMQ).
        """
        raise NotImplementedError


class DriverServices(Services):
    """Services of one driver."""

    def __init__(self, driver: ServedDriver, seed: str, version: str) -> None:
        self._driver = driver
        self.broker = driver.broker
        self.connection_limits = driver.connection_limits
        self.authenticator = InlineAuthenticator()
        self.tokens: TokenPolicy | None = None
        """Tokens that are accepted as passwords; None without token logins."""
        self.served: ServedUsers | None = None
        """Users of an HTTP back end; None without one."""
        self.backoff = Backoff(driver.broker.access)
        self.login_rate = LoginRate(driver.connection_limits)
        self.renewal_rate = RenewalRate()
        self.version = version
        self.audit = driver.audit
        self.paths = ManagementPaths(driver)
        self.logins = PendingLogins(self)
        self.open_connections = OpenConnections(driver.connection_limits)
        self.partial_messages = PartialMessages(self)
        self._seed: bytes = seed.encode()
        self._names: int = 0
        self._passwords = Passwords(driver.broker.access, self._seed, self._now)
        self._scram_keys = ScramKeyCache(driver.broker.access, self._seed, driver.broker.work)
        self._without_effect: set[str] = set()

    def _now(self) -> float:
        return self.broker.now

    @override
    def password_check(self, user: str, password: str, loopback: bool) -> CredentialCheck:
        if self.tokens is not None and looks_like_token(password):
            return TokenCheck(self.broker.now + self.broker.wall_offset, self.tokens, password)
        if self.served is not None and self.served.knows(user):
            return self.served.check(user, password)
        return self._passwords.check(user, password, loopback)

    @override
    def may_be_anonymous(self, loopback: bool) -> bool:
        guest = self.broker.access.find(GUEST)
        if guest is None or guest.password_hash is None or access_refusal(self.broker.access, GUEST, loopback):
            return False
        return self._passwords.is_known(GUEST, guest.password_hash, GUEST)

    @override
    def access_refusal(self, user: str, loopback: bool) -> str:
        return access_refusal(self.broker.access, user, loopback)

    @override
    def scram_keys(self, user: str) -> ScramKeys:
        return self._scram_keys.of(user)

    @override
    def make_scram_secret(self) -> None:
        self._scram_keys.make_secret()

    @override
    def make_nonce(self) -> str:
        return self.make_name("nonce")

    @override
    def log(self, line: LogLine) -> None:
        self._driver.log(line)

    @override
    def log_refusal(self, kind: str, text: str) -> None:
        self._driver.log_queue.add_refusal(kind, text)

    @override
    def log_request_refused(self, connection: Connection, subject: str, error: BrokerError) -> None:
        line = self._driver.refused_requests.add(connection.number, subject, error, self.broker.now)
        if line is not None:
            self.log(line)

    @override
    def log_without_effect(self, sentence: str) -> None:
        if sentence not in self._without_effect:
            self._without_effect.add(sentence)
            self.log(LogLine(sentence, {"id": WITHOUT_EFFECT}))

    @override
    def deliver(self) -> bool:
        return self._driver.deliver()

    @override
    def deliver_first(self, queue: Queue) -> None:
        self._driver.deliver_first(queue)

    @override
    def dispatch_effects(self) -> None:
        self._driver.notifier.dispatch_effects()

    @override
    def start_asking(self, steps: Steps[None], connection: Connection | None = None) -> None:
        self._driver.scheduler.start_asking(steps, connection)

    @override
    def resume_input(self, connection: Connection) -> None:
        self._driver.scheduler.go_on(connection)

    @override
    def schedule_flush(self, connection: Connection) -> None:
        self._driver.touched.append(connection)

    @override
    def schedule_blocked_notice(self, connection: Connection) -> None:
        self._driver.notifier.schedule_blocked_notice(connection)

    @override
    def schedule_loss_report(self, connection: Connection) -> None:
        self._driver.notifier.schedule_loss_report(connection)

    @override
    def report_silent(self, connection: Connection) -> None:
        self._driver.silent.append(connection)

    @override
    def control_request(self, vhost: VirtualHost, connection: Connection, operation: str, content: bytes) -> None:
        self._driver.control.request(vhost, connection, operation, content)

    @override
    def end_blocks(self, connection: Connection) -> None:
        self._driver.control.ranges.end(connection)

    @override
    def node_name(self) -> str:
        return self._driver.name

    @override
    def cluster_name(self) -> str:
        return self._driver.broker.table.parameters.cluster_name(self._driver.name)

    def make_name(self, prefix: str) -> str:
        """See `Services.make_name`: in RabbitMQ's form; the seed makes a name hard to guess, even from other names."""
        self._names += 1
        digest = hashlib.blake2b(b"%d" % self._names, digest_size=16, key=self._seed).digest()
        return f"{prefix}-{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"

    @override
    def block_reason(self, connection: Connection, gate: Gate) -> str:
        return self._driver.notifier.block_reason(connection, gate)
