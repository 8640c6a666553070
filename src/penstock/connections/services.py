"""Services: the interface of the broker that connections use. The driver implements it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from penstock.access.password_hash import ScramKeys
    from penstock.access.rules import CredentialCheck
    from penstock.connections.audit_trail import AuditTrail
    from penstock.connections.connection import Connection
    from penstock.connections.connection_limits import ConnectionLimits
    from penstock.connections.log_line import LogLine
    from penstock.connections.login import Authenticator
    from penstock.connections.login_limits import Backoff, LoginRate, OpenConnections, PendingLogins, RenewalRate
    from penstock.connections.partial_messages import PartialMessages
    from penstock.connections.path_request import ServedPaths
    from penstock.core.broker import Broker
    from penstock.core.queue.queue import Queue
    from penstock.core.vhost import VirtualHost
    from penstock.errors import BrokerError
    from penstock.flow.gate import Gate
    from penstock.flow.work import Steps


@mypyc_attr(allow_interpreted_subclasses=True)
class Services:
    """Services of one broker for its connections."""

    broker: Broker
    connection_limits: ConnectionLimits
    authenticator: Authenticator
    """Runner of slow checks."""
    backoff: Backoff
    """Back-off of answers to wrong passwords."""
    login_rate: LoginRate
    """Limits of logins a second."""
    renewal_rate: RenewalRate
    """Limit of renewals of tokens a second."""
    open_connections: OpenConnections
    logins: PendingLogins
    """Connections that are not logged in."""
    partial_messages: PartialMessages
    """Accounting of messages that arrive in pieces."""
    version: str
    """Version of this software, for peers."""
    paths: ServedPaths
    """Paths of the management node."""
    audit: AuditTrail
    """Trail of logins, refusals and changes."""

    # Login

    def password_check(self, user: str, password: str, loopback: bool) -> CredentialCheck:
        """Return the check of a user's password."""
        raise NotImplementedError

    def may_be_anonymous(self, loopback: bool) -> bool:
        """Return whether clients may log in as guest without a password: guest has its public password."""
        raise NotImplementedError

    def access_refusal(self, user: str, loopback: bool) -> str:
        """Return the reason why a user whose identity needs no password may not log in; empty if the user may."""
        raise NotImplementedError

    def scram_keys(self, user: str) -> ScramKeys:
        """Return the keys of a user for SCRAM-SHA-256; an unknown user has fixed keys that no password matches."""
        raise NotImplementedError

    def make_scram_secret(self) -> None:
        """Create the secret of salts for SCRAM if there is none, before its first use."""
        raise NotImplementedError

    def make_nonce(self) -> str:
        """Return printable characters without a comma, unguessable and different each time (RFC 5802)."""
        raise NotImplementedError

    # Log

    def log(self, line: LogLine) -> None:
        """Write a log line; its field `id` is one of logs/ids.py."""
        raise NotImplementedError

    def log_refusal(self, kind: str, text: str) -> None:
        """Log a refused client: at most one line a second of each kind (log_line.py); further lines are counted."""
        raise NotImplementedError

    def log_request_refused(self, connection: Connection, subject: str, error: BrokerError) -> None:
        """Log a refused request of a connection: the first with this error code, and later the number of others."""
        raise NotImplementedError

    def log_without_effect(self, sentence: str) -> None:
        """Log once that part of a declaration has no effect here; the sentence comes from a table."""
        raise NotImplementedError

    # Turn

    def deliver(self) -> bool:
        """Write deliveries now; return whether more may follow. Methods that end a session call this first."""
        raise NotImplementedError

    def deliver_first(self, queue: Queue) -> None:
        """Write the deliveries of one queue before a method whose effect must not overtake them."""
        raise NotImplementedError

    def dispatch_effects(self) -> None:
        """Dispatch the effects of the core now; called before the answer to a close."""
        raise NotImplementedError

    def start_asking(self, steps: Steps[None], connection: Connection | None = None) -> None:
        """Start a job that only reads; input of `connection` waits until it is done."""
        raise NotImplementedError

    def resume_input(self, connection: Connection) -> None:
        """Handle the deferred input of a connection whose wait is over, in its share of a turn."""
        raise NotImplementedError

    def schedule_flush(self, connection: Connection) -> None:
        """Register a connection for a write at the end of the turn."""
        raise NotImplementedError

    def schedule_blocked_notice(self, connection: Connection) -> None:
        """Register a connection whose number of blocking gates has changed."""
        raise NotImplementedError

    def schedule_loss_report(self, connection: Connection) -> None:
        """Schedule a report of a connection's lost publishes for the end of the turn."""
        raise NotImplementedError

    def report_silent(self, connection: Connection) -> None:
        """Report a connection whose peer has missed its heartbeats; the event loop closes it."""
        raise NotImplementedError

    # Requests and names

    def control_request(self, vhost: VirtualHost, connection: Connection, operation: str, content: bytes) -> None:
        """Carry out a control operation that a connection has published (management/control_api.py)."""
        raise NotImplementedError

    def end_blocks(self, connection: Connection) -> None:
        """Drop the remaining rows of a connection's blocks: the connection is being torn down."""
        raise NotImplementedError

    def node_name(self) -> str:
        """Return the name of the node, for answers in RabbitMQ's form."""
        raise NotImplementedError

    def cluster_name(self) -> str:
        """Return the name of the cluster, which an operator may set."""
        raise NotImplementedError

    def make_name(self, prefix: str) -> str:
        """Return a name that is hard to guess, for a queue or consumer without one."""
        raise NotImplementedError

    def block_reason(self, connection: Connection, gate: Gate) -> str:
        """Return why a gate blocks publishes of a connection; see `blocking_gate`."""
        raise NotImplementedError
