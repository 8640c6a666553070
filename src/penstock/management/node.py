"""Node: the interface by which control operations read and change the running broker, implemented by the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr
from typing_extensions import override

from penstock.connections.connection import Connection
from penstock.connections.single_publish import SinglePublishes
from penstock.connections.slowed_connections import SlowedConnections
from penstock.core.vhost import VirtualHost
from penstock.describe.table import DescribedNode, Row
from penstock.errors import InternalError, NotFound, PreconditionFailed
from penstock.flow.work import Steps
from penstock.management.alarms import Alarms
from penstock.management.bridges import BridgeTable
from penstock.management.cluster import ClusterView
from penstock.management.hold_spans import HoldTracer
from penstock.management.jobs import Job, Jobs
from penstock.management.process_facts import ProcessFacts
from penstock.management.refusals import RefusedPublishes

if TYPE_CHECKING:
    from penstock.connections.control_request import ControlRequest
    from penstock.connections.services import Services
    from penstock.management.control_api import ControlApi
    from penstock.management.elsewhere import ImportParts
    from penstock.management.flow_log_records import Recorder


TLS_RELOAD: Final = "tls.reload"
"""Name of the operation that reads certificates again; it answers by itself, later."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Certificates:
    """Certificates of a broker; this class implements a broker without TLS."""

    def view(self) -> list[dict[str, object]]:
        """Return each certificate as plain data: its file, names, end (ISO 8601) and the days left."""
        return []

    def ends(self) -> list[tuple[str, str, float]]:
        """Return file and name of each certificate (the name is empty for the default), and the time of its end.

        Times are seconds since the epoch.
        """
        return []

    def reload(self, request: ControlRequest) -> None:
        """Read the certificates again, and then answer the request. Raises PreconditionFailed (406)."""
        raise PreconditionFailed(
            "this broker has no TLS: set certificate and key in [tls] of its settings file, and listen-tls"
        )


def answer_reload(certificates: Certificates, request: ControlRequest) -> dict[str, object] | None:
    """Answer tls.reload {}: the certificates in effect for new connections; open connections keep theirs."""
    certificates.reload(request)
    return None


class StartSettings:
    """Start-up settings of a broker as rows provided by the server: `setting`, `value`, `default` and `from`."""

    def __init__(self) -> None:
        self.rows: list[dict[str, object]] = []
        self.file: str = ""
        """Path of the settings file; empty without one."""


@mypyc_attr(allow_interpreted_subclasses=True)
class FailureReports:
    """Reports of unexpected exceptions."""

    def report(self, what: str, error: Exception) -> InternalError:
        """Log an exception; return the error for the client that waits for `what`."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Node(DescribedNode):
    """The node, as control operations use it."""

    refused: RefusedPublishes
    failures: FailureReports
    control: ControlApi
    services: Services
    certificates: Certificates
    """Certificates of the listeners."""
    jobs: Jobs
    """Long work of users."""
    alarms: Alarms
    """Conditions that need a person."""
    bridges: BridgeTable
    """Bridges to other brokers."""
    cluster: ClusterView | None
    """Shards of a node, in the process of the node; None in a broker without shards, and in each shard."""
    start_settings: StartSettings
    """Start-up settings, for people."""
    process: ProcessFacts
    """Facts about the process."""
    single_publishes: SinglePublishes
    """Publishes without a channel."""
    connected: int
    """Number of all connections since the start."""
    parts: ImportParts | None
    """Shards that import their parts of definitions, in the node's own broker; None in all others."""
    recorder: Recorder | None
    """Recorder of the flow log; None without one."""
    tracer: HoldTracer | None
    """Tracer of held publishes; None unless they are traced."""

    def is_administrator(self, user: str) -> bool:
        """Return whether a user has the tag administrator."""
        account = self.broker.access.find(user)
        return account is not None and account.is_administrator()

    @property
    @override
    def version(self) -> str:
        return self.control.version

    @override
    def bridge_rows(self) -> list[Row]:
        return self.bridges.rows()

    def vhost(self, name: str) -> VirtualHost:
        """Return a virtual host. Raises NotFound (404), also during its deletion."""
        vhost = self.broker.vhosts.get(name)
        if vhost is None or vhost.deleting:
            raise NotFound(f"no vhost '{name}'{'' if vhost is None else f': {self.deletion_of(name)} deletes it'}")
        return vhost

    def deletion_of(self, vhost: str) -> str:
        """Return the job that deletes a virtual host, for sentences."""
        job = self.jobs.of_whole(vhost)
        return "its deletion" if job is None else f"job {job.number}"

    def slowed(self) -> SlowedConnections:
        """Return the connections that are slowed by their own work."""
        raise NotImplementedError

    def turns_view(self) -> dict[str, object]:
        """Return the longest turns of the event loop as plain data."""
        raise NotImplementedError

    def start(self, steps: Steps[None], connection: Connection | None = None) -> None:
        """Start a change of state, after earlier changes; input of `connection` waits until the change is done."""
        raise NotImplementedError

    def start_job(self, job: Job, steps: Steps[None], connection: Connection | None = None) -> None:
        """Start the steps of a job, beside changes and other jobs; input of `connection` waits until the end."""
        raise NotImplementedError

    def detach_job(self, job: Job) -> None:
        """Resume the input of the connection that waits for a job."""
        raise NotImplementedError

    def start_asking(self, steps: Steps[None], connection: Connection | None = None, onlooker: bool = False) -> None:
        """Start work that only reads, concurrently with changes; input of `connection` waits until the work is done.

        The work of a monitoring request, such as a list, is done in slices that delay other clients less.
        """
        raise NotImplementedError

    def record_setting(self, subject: str, change: str, user: str) -> None:
        """Log and record a change of settings at run time: its subject, the change with its author, and the user."""
        raise NotImplementedError
