"""Health checks: each has a verdict, with the reason of a failure. Paths are RabbitMQ's; `health` has all in one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from penstock.access.permission import MANAGEMENT
from penstock.connections.control_request import ControlRequest
from penstock.describe.table import Row
from penstock.errors import AccessRefused, PreconditionFailed
from penstock.management.node import Node
from penstock.management.operation import ALL, ANYWHERE, FAILED, NODE, VHOST, Operation, Route, Run, looking, verdict
from penstock.operations.joins import HEALTH, LIMIT_REACHED, VERDICTS

PROTOCOLS: Final[tuple[str, ...]] = ("amqp091", "amqp0.9.1", "amqp0-9-1", "amqp")
UNITS_S: Final = {"days": 86_400, "weeks": 7 * 86_400, "months": 365 * 7_200, "years": 365 * 86_400}
"""Units of `certificate-expiration` in seconds; a month is a twelfth of a year."""
NUMBER_MOST: Final = 9
"""Most digits of a number in a path."""
PORT_DIGITS: Final = 5
"""Most digits of a port."""


def _ready(node: Node, request: ControlRequest) -> Row:
    return verdict(node.process.obstacle())


def _virtual_hosts(node: Node, request: ControlRequest) -> Row:
    down = [vhost.name for vhost in node.broker.vhosts.values() if vhost.deleting]
    return verdict("Some virtual hosts are down", **{"virtual-hosts": down}) if down else verdict()


def _connections(node: Node, request: ControlRequest) -> Row:
    most = node.services.connection_limits.start.connections_max
    current = len(node.connections)
    reason = LIMIT_REACHED if 0 < most <= current else ""
    return verdict(reason, current=current, limit=most or "infinity")


def _certificates(node: Node, request: ControlRequest) -> Row:
    within, unit = request.text("within"), request.text("unit")
    if unit not in UNITS_S:
        raise PreconditionFailed(f"the unit must be one of {', '.join(UNITS_S)}, not '{unit[:NUMBER_MOST]}'")
    if not within.isdecimal() or len(within) > NUMBER_MOST:
        raise PreconditionFailed("Invalid expiration period: it must be a whole number")
    until = node.broker.now + node.broker.wall_offset + int(within) * UNITS_S[unit]
    ending = [
        {"certfile": file, "name": name or None, "certfile_expires_on": [datetime.fromtimestamp(ends, UTC).isoformat()]}
        for file, name, ends in node.certificates.ends()
        if ends <= until
    ]
    return verdict("Certificates expiring", expired=ending) if ending else verdict()


def _aliveness(node: Node, request: ControlRequest) -> Row:
    vhost, access = request.vhost.name, request.access
    if not access.rules.enters(vhost):
        raise AccessRefused(f"access to vhost '{vhost}' refused for user '{access.user}'")
    return verdict()


def _alarms(node: Node, request: ControlRequest) -> Row:
    closed = [("memory", node.memory_alarm()), ("disk", node.disk_alarm())]
    rows = [{"node": node.name, "resource": resource} for resource, alarm in closed if alarm]
    return verdict("There are alarms in effect", alarms=rows) if rows else verdict()


def _alarms_of_node(node: Node, request: ControlRequest) -> Row | None:
    return _alarms(node, request) if request.text("node") == node.name else None


def _port_listener(node: Node, request: ControlRequest) -> Row:
    wanted = request.text("port")
    if not wanted.isdecimal() or len(wanted) > PORT_DIGITS:
        raise PreconditionFailed("Invalid port")
    ports = [port for _, _, port in node.process.listeners]
    if int(wanted) in ports:
        return verdict(port=int(wanted))
    return verdict("No active listener", missing=int(wanted), ports=ports)


def _protocol_listener(node: Node, request: ControlRequest) -> Row:
    wanted = request.text("protocol")
    protocol = "amqp" if wanted.lower() in PROTOCOLS else wanted
    spoken = sorted({each for each, _, _ in node.process.listeners})
    if protocol in spoken:
        return verdict(protocol=protocol)
    return verdict("No active listener", missing=wanted, protocols=spoken)


def _all(node: Node, request: ControlRequest) -> Row:
    """Return the verdicts of all checks that look at this node; one that failed makes the answer fail."""
    memory, disk = node.memory_alarm(), node.disk_alarm()
    now = node.broker.now + node.broker.wall_offset
    ended = [file for file, _, ends in node.certificates.ends() if ends <= now]
    verdicts: list[tuple[str, Row]] = [
        ("serves clients", _ready(node, request)),
        ("memory", verdict("its gate is closed: publishers wait" if memory else "")),
        ("disk", verdict("a gate is closed: publishers of persistent messages wait" if disk else "")),
        ("virtual hosts", _virtual_hosts(node, request)),
        ("connections", _connections(node, request)),
        ("certificates", verdict(f"{', '.join(ended)} has ended" if ended else "")),
    ]
    checks: list[Row] = [
        {"check": name, "status": found["status"], "reason": found.get("reason") or None} for name, found in verdicts
    ]
    failed = [str(each["check"]) for each in checks if each["status"] == FAILED]
    return {**verdict(f"{', '.join(failed)} failed" if failed else ""), "node": node.name, "checks": checks}


def _passed(node: Node, request: ControlRequest) -> Row:
    return verdict()


def _alone(node: Node, request: ControlRequest) -> Row:
    return {**verdict(), "reason": "single node cluster"}


def _check(run: Run, paths: str, purpose: str, vhost: str | None = None, asks: str = NODE) -> Operation:
    """Return the row of a health check."""
    routes = (Route(f"GET {paths}", purpose, vhost=vhost, verdict=True),)
    return looking("", run, tag=MANAGEMENT, routes=routes, asks=asks, join=VERDICTS if asks == ALL else None)


ALL_CHECKS: Final = "GET /penstock/health"
LEADERLESS: Final = "/health/checks/quorum-queues-without-elected-leaders"
OPERATIONS: Final[tuple[Operation, ...]] = (
    looking("health", _all, tag=MANAGEMENT, asks=ALL, join=HEALTH, routes=(
        Route(ALL_CHECKS, "Report the verdicts of all checks of this node: 503 if one has failed.", verdict=True),
    )),
    _check(_aliveness, "/aliveness-test/{vhost}", "Report whether a virtual host exists.", asks=VHOST),
    _check(_alarms, "/healthchecks/node /health/checks/alarms /health/checks/local-alarms",
           "Report whether the node's memory gate, or a disk gate, is closed: RabbitMQ's alarms.", asks=ALL),
    _check(_alarms_of_node, "/healthchecks/node/{node}",
           "Report whether a gate of the node is closed, as the health check without a node.", asks=ALL),
    _check(_passed, "/health/checks/metadata-store/initialized /health/checks/metadata-store/initialized/with-data "
           "/health/checks/reached-target-cluster-size",
           "Report whether the metadata store is initialised, or the cluster as large as it shall be: both are so."),
    _check(_passed, f"{LEADERLESS}/all-vhosts {LEADERLESS}/all-vhosts/pattern/{{pattern}} {LEADERLESS}/vhost/{{vhost}} "
           f"{LEADERLESS}/vhost/{{vhost}}/pattern/{{pattern}}",
           "Report whether quorum queues have a leader: each has this node.", ANYWHERE),
    _check(_certificates, "/health/checks/certificate-expiration/{within}/{unit}",
           "Report whether a certificate of TLS ends within a time, or has ended: days, weeks, months or years."),
    _check(_port_listener, "/health/checks/port-listener/{port}", "Report whether a port has a listener."),
    _check(_protocol_listener, "/health/checks/protocol-listener/{protocol}",
           "Report whether a protocol has a listener."),
    _check(_virtual_hosts, "/health/checks/virtual-hosts",
           "Report whether all virtual hosts run: one that is being deleted does not.", asks=ALL),
    _check(_ready, "/health/checks/ready /health/checks/ready-to-serve-clients /health/checks/is-in-service",
           "Report whether clients are served."),
    _check(_connections, "/health/checks/below-node-connection-limit",
           "Report whether there are fewer connections than `connections-max` permits.", asks=ALL),
    _check(_alone, "/health/checks/node-is-quorum-critical /health/checks/node-is-mirror-sync-critical",
           "Report that no other node depends on this one."),
)  # fmt: skip
