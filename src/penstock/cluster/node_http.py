"""HTTP of a node: the API with the console, metrics and probes, at the addresses that the settings name.

The application is that of any broker, with the office as its broker: it has users, virtual hosts and the node's own
process. Clients log in at the desk, so that back-off and rates of logins count both protocols. What shards have is
asked of them (node_api.py, node_metrics.py, node_maps.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import override

from penstock.access.rules import UserRules
from penstock.cluster.answers import NodeAnswers
from penstock.cluster.ways import Ways
from penstock.describe.table import Row
from penstock.driver.driver import BrokerDriver
from penstock.errors import StartError
from penstock.flow.pool import Pools
from penstock.logs.ids import CONSOLE_UNSERVED
from penstock.logs.logger import log
from penstock.management.operation import verdict
from penstock.server.addresses import http_address, parse_address
from penstock.server.event_loop import EventLoop
from penstock.server.http.listener import HttpListener
from penstock.server.http.login import login
from penstock.server.http.request import Identity, json_response
from penstock.server.process_facts import ServerFacts
from penstock.server.shard import Shard
from penstock.server.tls.contexts import TlsServer
from penstock.settings.config import Settings

if TYPE_CHECKING:
    from penstock.server.http.connections import HttpConnections

METRICS: Final = "http/prometheus"
"""Name of the listener for metrics, as in RabbitMQ."""


class NodeFacts(ServerFacts):
    """Facts about the process of a node: clients are served if all shards serve, and log in at the desk."""

    def __init__(
        self, event_loop: EventLoop, listeners: list[tuple[str, str, int]], ways: Ways, desk: BrokerDriver
    ) -> None:
        super().__init__(event_loop, listeners)
        self._ways = ways
        self._desk = desk

    @override
    def logins_elsewhere(self) -> tuple[int, int]:
        audit = self._desk.audit
        return int(audit.logins_accepted), int(audit.logins_refused)

    @override
    def obstacle(self) -> str:
        obstacles = [super().obstacle(), *map(self._ways.obstacle, self._ways.names())]
        return "; ".join(filter(None, obstacles))


class NodeHttp:
    """Listeners of HTTP of one node."""

    def __init__(
        self,
        settings: Settings,
        office: Shard,
        desk: Shard,
        ways: Ways,
        answers: NodeAnswers,
        listeners: list[tuple[str, str, int]],
    ) -> None:
        """`office` has users and virtual hosts; clients log in at the `desk`.

        `listeners` are the open listeners of the node, which grow by those of HTTP: protocol, host and port.
        """
        self._settings = settings
        self._office = office
        self._desk = desk
        self._ways = ways
        self._answers = answers
        self._at = http_address(settings.http, [parse_address(each) for each in settings.listen], settings)
        self._api: HttpListener | None = None
        self._metrics: HttpListener | None = None
        self._listeners = listeners
        self.http_addresses: list[tuple[str, int]] = []
        """Addresses of the HTTP API without TLS."""
        self.https_addresses: list[tuple[str, int]] = []
        """Addresses of the HTTP API with TLS."""
        self.metrics_addresses: list[tuple[str, int]] = []
        """Addresses of metrics and probes without a login."""
        self.console_problem = ""
        """Reason why the console is not served although nobody has turned it off; empty if there is none."""

    async def open_metrics(self) -> None:
        """Open the port for metrics and probes, which also answers while shards start. Raises StartError."""
        office = self._office
        office.driver.process = NodeFacts(office.event_loop, self._listeners, self._ways, self._desk.driver)
        if self._settings.metrics_listen is not None:
            at = parse_address(self._settings.metrics_listen, "--metrics-listen")
            self._metrics = HttpListener(office.event_loop, self._settings, False, load=self._load_metrics)
            self.metrics_addresses = await self._metrics.start(*at)
            self._listeners += [(METRICS, *address) for address in self.metrics_addresses]

    async def start(self, tls: TlsServer | None) -> None:
        """Open the ports of the API. Raises StartError."""
        if self._at is not None:
            try:
                self.http_addresses = await self._serve(self._at.host, self._at.port, None)
            except StartError as error:
                if not self._at.optional:
                    raise
                self.console_problem = str(error).partition(";")[0]
                log(CONSOLE_UNSERVED, "the console is not served: %s", error)
        if self._settings.http_tls is not None:
            self.https_addresses = await self._serve(*parse_address(self._settings.http_tls, "--http-tls"), tls)

    async def _serve(self, host: str, port: int, tls: TlsServer | None) -> list[tuple[str, int]]:
        if self._api is None:
            self._api = HttpListener(self._office.event_loop, self._settings, True, load=self._load_api)
        addresses = await self._api.start(host, port, tls)
        self._listeners += [("http" if tls is None else "https", *address) for address in addresses]
        return addresses

    async def stop(self) -> None:
        """Close all ports, and end the connections."""
        for listener in (self._api, self._metrics):
            if listener is not None:
                await listener.stop()

    # Applications

    def _load_api(self) -> HttpConnections:
        from penstock.cluster.node_api import NodeApi
        from penstock.cluster.node_metrics import NodeMetrics
        from penstock.server.http.app import make_app
        from penstock.server.http.connections import served_connections
        from penstock.server.http.request import Service

        event_loop, settings = self._office.event_loop, self._settings
        service = Service(event_loop)
        service.identify = self._identify
        service.elsewhere = NodeApi(self._ways, self._answers)
        pools, brokers = event_loop.driver.broker.pools, [self._office.driver, self._desk.driver]
        scraped = NodeMetrics(event_loop, settings.metrics_objects_max, pools, self._ways, brokers)
        return served_connections(service, settings, make_app(service, scraped))

    def _load_metrics(self) -> HttpConnections:
        from penstock.cluster.node_metrics import NodeMetrics
        from penstock.server.http.connections import probe_connections
        from penstock.server.http.probes import probe_app

        event_loop, settings = self._office.event_loop, self._settings
        brokers = [self._office.driver, self._desk.driver]
        scraped = NodeMetrics(event_loop, settings.metrics_objects_max, Pools(), self._ways, brokers)
        return probe_connections(event_loop, settings, probe_app(event_loop, scraped, self._ready))

    async def _identify(self, http_request: Request, driver: BrokerDriver) -> Identity:
        """Log a user in at the desk; the rules are those of the office, which has each change first."""
        found = await login(http_request, self._desk.driver)
        if isinstance(found.rules, UserRules):
            return Identity(found.user, UserRules(driver.broker.access, found.user), found.expires_at)
        return found

    def _ready(self) -> Response:
        """Answer 200 if a shard serves: others must not lose their clients by one that is away, which is named."""
        shards: list[Row] = []
        for name in self._ways.names():
            shards.append(verdict(self._ways.obstacle(name), shard=name))
        serves = [each for each in shards if each["status"] == "ok"]
        reason = self._office.event_loop.readiness.obstacle or ("" if serves else "no shard serves")
        return json_response(verdict(reason, shards=shards), 503 if reason else 200)
