"""Handlers for the broker as a whole: overview and node."""

from __future__ import annotations

import asyncio
import os
import resource

from starlette.responses import Response

from penstock.access.tags import MONITORING
from penstock.describe import history
from penstock.describe.routing import exchange_types
from penstock.describe.stats_sampler import Sum
from penstock.describe.table import API_VERSION, Row, field_at
from penstock.describe.vhost import churn, totals_steps
from penstock.driver.driver import BrokerDriver
from penstock.flow.level import UNLIMITED
from penstock.flow.series import SLOT_S, TIERS
from penstock.server.host_memory import mapped_bytes
from penstock.server.http.listing import one, sample_ranges
from penstock.server.http.request import ApiRequest, bad_request, json_response, not_found

RETAINED_S = [round(slots * entries * SLOT_S) for slots, entries in TIERS]
"""Seconds of each tier of samples."""


async def overview(request: ApiRequest) -> Response:
    """Return the overview: version, totals and listeners."""
    driver = request.driver
    monitors = request.rules.has_tag(MONITORING)
    rules = None if monitors else request.rules
    totals = await request.in_steps(totals_steps(driver, rules, request.user, sample_ranges(request)))
    found: Row = {
        "management_version": API_VERSION,
        "rabbitmq_version": API_VERSION,
        "product_name": "Penstock",
        "product_version": driver.version,
        "cluster_name": driver.name,
        "node": driver.name,
        "rates_mode": "basic",
        "sample_retention_policies": {"global": RETAINED_S, "basic": RETAINED_S, "detailed": RETAINED_S[:1]},
        "disable_stats": False,
        "enable_queue_totals": False,
        "exchange_types": exchange_types(),
        **totals,
        **({"churn_rates": _churn(driver, totals)} if monitors else {}),
        "statistics_db_event_queue": 0,
        "listeners": [
            {"node": driver.name, "protocol": protocol, "ip_address": host, "port": port, "socket_opts": {}}
            for protocol, host, port in request.event_loop.listeners
            if monitors
        ],
        "contexts": _contexts(request) if monitors else [],
    }
    return one(request, found)


def _churn(driver: BrokerDriver, totals: Row) -> Row:
    """Return what came and went since the start, as RabbitMQ's overview has it; `totals` are what is there."""
    channels, queues = field_at(totals, "object_totals.channels"), field_at(totals, "object_totals.queues")
    assert isinstance(channels, int) and isinstance(queues, int)
    return {**churn(driver, driver.connected, channels, queues)}


def _contexts(request: ApiRequest) -> list[Row]:
    return [
        {"node": request.driver.name, "description": "Penstock's HTTP API", "path": "/", "ip": host, "port": str(port)}
        for protocol, host, port in request.event_loop.listeners
        if protocol == "http"
    ]


async def nodes(request: ApiRequest) -> Response:
    """List the one node."""
    return json_response([await _node(request)])


async def node(request: ApiRequest) -> Response:
    """Show the one node."""
    if request.part("name") != request.driver.name:
        raise not_found()
    return one(request, await _node(request))


async def _node(request: ApiRequest) -> Row:
    files = await asyncio.to_thread(_open_files)
    request.begin_turn()
    driver = request.driver
    memory = driver.broker.gates.memory
    limit = UNLIMITED if memory is None else int(memory.thresholds.stop.bytes)
    figures = {
        "mem_limit": None if limit >= UNLIMITED else limit,
        "disk_free_limit": _disk_free_limit(driver),
        "fd_used": files,
    }
    return {
        "name": driver.name,
        "type": "ram",
        "running": True,
        "being_drained": False,
        "os_pid": str(os.getpid()),
        "uptime": round((request.event_loop.loop.time() - request.event_loop.started) * 1000),
        "processors": os.cpu_count() or 1,
        # Where the system does not know the present value, the highest one.
        "mem_used": mapped_bytes(1) or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "mem_alarm": driver.memory_alarm(),
        "disk_free": None if driver.broker.gates.disk.free >= UNLIMITED else int(driver.broker.gates.disk.free),
        "disk_free_alarm": driver.disk_alarm(),
        "fd_total": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "sockets_used": len(request.event_loop.transports),
        "rates_mode": "basic",
        "partitions": [],
        "exchange_types": exchange_types(),
        "auth_mechanisms": [
            {"name": "PLAIN", "description": "SASL PLAIN authentication mechanism", "enabled": True},
            {"name": "AMQPLAIN", "description": "QPid AMQPLAIN mechanism", "enabled": True},
        ],
        "applications": [{"name": "penstock", "description": "Penstock", "version": driver.version}],
        "contexts": [{name: item for name, item in each.items() if name != "node"} for each in _contexts(request)],
        "enabled_plugins": [],
        **{name: value for name, value in figures.items() if value is not None},  # RabbitMQ's tools take no null.
    }


def _disk_free_limit(driver: BrokerDriver) -> int | None:
    room = driver.broker.gates.disk.room
    mark = 0 if driver.broker.journal is None or room is None else int(room.recheck_at())
    return mark or None


def _open_files() -> int | None:
    """Return the number of open files; None if the system does not know. It lists them: for a thread."""
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return None


async def cluster_name(request: ApiRequest) -> Response:
    """Return the node's name as that of its cluster."""
    return json_response({"name": request.driver.name})


async def auth(request: ApiRequest) -> Response:
    """Return how the console logs in: with a password, never by a redirect to an OAuth provider."""
    return json_response({"oauth_enabled": False})


async def version(request: ApiRequest) -> Response:
    """Return the version of RabbitMQ's API that this one follows."""
    return json_response(API_VERSION)


async def empty(request: ApiRequest) -> Response:
    """Return an empty list, for features that Penstock lacks."""
    return json_response([])


# Histories of the last 24 hours: rates, depths and gates


async def of_queue(request: ApiRequest) -> Response:
    """Show the history of a queue."""
    tiers: list[Row] = []
    for tier in _tiers(request):
        tiers.append(history.of_queue(request.queue(), request.driver, tier))
        await request.pause()
    return one(request, {"queue": request.part("name"), "vhost": request.vhost().name, "tiers": tiers})


async def of_vhost(request: ApiRequest) -> Response:
    """Show the history of a virtual host."""
    name = request.vhost().name
    return one(request, {"vhost": name, "tiers": _sums(request, request.driver.stats.vhosts.get(name))})


async def of_node(request: ApiRequest) -> Response:
    """Show the history of the node."""
    return one(request, {"node": request.driver.name, "tiers": _sums(request, request.driver.stats.node)})


def _sums(request: ApiRequest, counted: Sum | None) -> list[Row]:
    return [history.of_sum(counted, request.driver, tier) for tier in _tiers(request)]


def _tiers(request: ApiRequest) -> list[int]:
    """Return the tiers that the query asks for by the seconds of their entries; all by default."""
    wanted = request.query.get("seconds")
    if wanted is None:
        return list(range(len(TIERS)))
    found = [tier for tier, seconds in enumerate(history.STEPS_S) if wanted == str(seconds)]
    if not found:
        raise bad_request(f"seconds must be one of {', '.join(map(str, history.STEPS_S))}, not {wanted}")
    return found
