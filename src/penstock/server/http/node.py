"""Handlers for the broker as a whole: overview, node, users, permissions and health checks."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from starlette.responses import Response

from penstock.driver.driver import BrokerDriver
from penstock.flow.level import UNLIMITED
from penstock.management.rabbitmq_json import API_VERSION, Shape, exchange_types
from penstock.management.totals import totals_steps
from penstock.server.http.listing import one
from penstock.server.http.request import ApiRequest, bad_request, json_response, not_found

PROTOCOLS = ("amqp091", "amqp0.9.1", "amqp0-9-1", "amqp")


async def overview(ask: ApiRequest) -> Response:
    """Return the overview: version, totals and listeners."""
    driver = ask.driver
    totals = await ask.in_steps(totals_steps(driver))
    found: Shape = {
        "management_version": API_VERSION,
        "rabbitmq_version": API_VERSION,
        "product_name": "Penstock",
        "product_version": driver.control.version,
        "cluster_name": driver.node,
        "node": driver.node,
        "rates_mode": "none",
        "sample_retention_policies": {},
        "disable_stats": False,
        "enable_queue_totals": False,
        "exchange_types": exchange_types(),
        **totals,
        "statistics_db_event_queue": 0,
        "listeners": [
            {"node": driver.node, "protocol": protocol, "ip_address": host, "port": port, "socket_opts": {}}
            for protocol, host, port in ask.event_loop.listeners
        ],
        "contexts": _contexts(ask),
    }
    return one(ask, found)


def _contexts(ask: ApiRequest) -> list[Shape]:
    return [
        {"node": ask.driver.node, "description": "Penstock's HTTP API", "path": "/", "ip": host, "port": str(port)}
        for protocol, host, port in ask.event_loop.listeners
        if protocol == "http"
    ]


async def nodes(ask: ApiRequest) -> Response:
    """List the one node."""
    return json_response([_node(ask)])


async def node(ask: ApiRequest) -> Response:
    """Show the one node."""
    if ask.part("name") != ask.driver.node:
        raise not_found()
    return one(ask, _node(ask))


def _node(ask: ApiRequest) -> Shape:
    driver = ask.driver
    memory = driver.broker.gates.memory
    limit = UNLIMITED if memory is None else int(memory.thresholds.stop.bytes)
    return {
        "name": driver.node,
        "type": "ram",
        "running": True,
        "os_pid": str(os.getpid()),
        "uptime": round((ask.event_loop.loop.time() - ask.event_loop.started) * 1000),
        "processors": os.cpu_count() or 1,
        "mem_used": _resident_bytes(),
        "mem_limit": None if limit >= UNLIMITED else limit,
        "mem_alarm": _memory_alarm(driver),
        "disk_free": None if driver.broker.gates.disk.free >= UNLIMITED else int(driver.broker.gates.disk.free),
        "disk_free_limit": _disk_free_limit(driver),
        "disk_free_alarm": _disk_alarm(driver),
        "fd_total": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "sockets_used": len(ask.event_loop.transports),
        "rates_mode": "none",
        "partitions": [],
        "exchange_types": exchange_types(),
        "auth_mechanisms": [
            {"name": "PLAIN", "description": "SASL PLAIN authentication mechanism", "enabled": True},
            {"name": "AMQPLAIN", "description": "QPid AMQPLAIN mechanism", "enabled": True},
        ],
        "applications": [{"name": "penstock", "description": "Penstock", "version": driver.control.version}],
        "contexts": [{name: item for name, item in each.items() if name != "node"} for each in _contexts(ask)],
        "enabled_plugins": [],
    }


def _memory_alarm(driver: BrokerDriver) -> bool:
    memory = driver.broker.gates.memory
    return memory is not None and not memory.gate.open


def _disk_alarm(driver: BrokerDriver) -> bool:
    """Tell whether a closed disk gate stops every producer of persistent messages."""
    disk = driver.broker.gates.disk
    return disk.is_failing() or any(each is not None and not each.gate.open for each in (disk.quota, disk.room))


def _disk_free_limit(driver: BrokerDriver) -> int | None:
    room = driver.broker.gates.disk.room
    mark = 0 if driver.broker.journal is None or room is None else int(room.recheck_at())
    return mark or None


def _resident_bytes() -> int:
    """Return the resident memory of this process: now, or its maximum if the system does not know."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def cluster_name(ask: ApiRequest) -> Response:
    """Return the node's name as that of its cluster."""
    return json_response({"name": ask.driver.node})


async def empty(ask: ApiRequest) -> Response:
    """Return an empty list, for features that Penstock lacks."""
    return json_response([])


# Users


async def whoami(ask: ApiRequest) -> Response:
    """Return the user of the request."""
    return json_response({"name": ask.user, "tags": ask.driver.users.tags(ask.user)})


async def users(ask: ApiRequest) -> Response:
    """List users, without their passwords."""
    return json_response([_user(ask.driver, name) for name in ask.driver.users.names()])


async def user(ask: ApiRequest) -> Response:
    """Show a user."""
    return json_response(_user(ask.driver, _known(ask)))


async def permissions(ask: ApiRequest) -> Response:
    """List permissions, all, of a virtual host or of a user: every user has all permissions."""
    vhost = ask.vhost_or_all()
    names = [_known(ask)] if "user" in ask.request.path_params else ask.driver.users.names()
    vhosts = list(ask.driver.broker.vhosts) if vhost is None else [vhost.name]
    return json_response([_permission(name, each) for name in names for each in vhosts])


async def permission(ask: ApiRequest) -> Response:
    """Show a user's permissions in a virtual host."""
    vhost = ask.vhost_or_all()
    return json_response(_permission(_known(ask), "/" if vhost is None else vhost.name))


def _known(ask: ApiRequest) -> str:
    name = ask.part("user")
    if name not in ask.driver.users.names():
        raise not_found()
    return name


def _user(driver: BrokerDriver, name: str) -> Shape:
    return {"name": name, "tags": driver.users.tags(name), "limits": {}}


def _permission(name: str, vhost: str) -> Shape:
    return {"user": name, "vhost": vhost, "configure": ".*", "write": ".*", "read": ".*"}


# Health


async def healthy(ask: ApiRequest) -> Response:
    """Report that the node is healthy."""
    return json_response({"status": "ok"})


async def alone(ask: ApiRequest) -> Response:
    """Report that no other node depends on this one."""
    return json_response({"status": "ok", "reason": "single node cluster"})


async def aliveness(ask: ApiRequest) -> Response:
    """Report whether a virtual host exists."""
    ask.vhost_or_all()
    return json_response({"status": "ok"})


async def alarms(ask: ApiRequest) -> Response:
    """Report whether the node's memory gate, or a disk gate, is closed: RabbitMQ's alarms."""
    closed = [("memory", _memory_alarm(ask.driver)), ("disk", _disk_alarm(ask.driver))]
    found = [{"node": ask.driver.node, "resource": resource} for resource, alarm in closed if alarm]
    if not found:
        return json_response({"status": "ok"})
    return json_response({"status": "failed", "reason": "There are alarms in effect", "alarms": found}, 503)


async def port_listener(ask: ApiRequest) -> Response:
    """Report whether a port has a listener."""
    said = ask.part("port")
    if not said.isdecimal() or len(said) > 5:
        raise bad_request("Invalid port")
    ports = [port for _, _, port in ask.event_loop.listeners]
    if int(said) in ports:
        return json_response({"status": "ok", "port": int(said)})
    answer = {"status": "failed", "reason": "No active listener", "missing": int(said), "ports": ports}
    return json_response(answer, 503)


async def protocol_listener(ask: ApiRequest) -> Response:
    """Report whether a protocol has a listener."""
    said = ask.part("protocol")
    protocol = "amqp" if said.lower() in PROTOCOLS else said
    spoken = sorted({each for each, _, _ in ask.event_loop.listeners})
    if protocol in spoken:
        return json_response({"status": "ok", "protocol": protocol})
    return json_response(
        {"status": "failed", "reason": "No active listener", "missing": said, "protocols": spoken}, 503
    )
