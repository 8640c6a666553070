"""Handlers for the broker as a whole: overview, node and definitions."""

from __future__ import annotations

import asyncio
import os
import platform
import resource
import threading
from collections.abc import AsyncIterator
from typing import Final

from starlette.responses import Response

from penstock.access.permission import MONITORING
from penstock.connections.control_request import IMPORT
from penstock.core.vhost import VirtualHost
from penstock.describe import stats_sampler
from penstock.describe.lists import Item
from penstock.describe.stats_sampler import STEPS_S, Sum
from penstock.describe.table import API_VERSION, Row, field_at
from penstock.describe.vhost import churn, exchange_types, totals_steps
from penstock.driver.driver import BrokerDriver
from penstock.flow.level import UNLIMITED
from penstock.flow.series import SLOT_S, TIERS
from penstock.management.jobs import DEFINITIONS, Subject
from penstock.operations import definitions_export
from penstock.operations.definitions_import import ImportOptions, import_steps
from penstock.operations.definitions_parser import BYTES_MOST
from penstock.operations.parameters import cluster_name_of
from penstock.server.http.objects import one, sample_ranges
from penstock.server.http.request import (
    ApiRequest,
    LongAnswer,
    bad_request,
    json_octets,
    json_response,
    no_content,
    not_found,
    overflow_header,
)
from penstock.server.process_limits import mapped_bytes, memory_bytes

PLUGINS: Final = ("rabbitmq_management", "rabbitmq_prometheus")
"""RabbitMQ's names of plugins whose features Penstock always has."""
NO_ERLANG: Final = "0"
"""Version of Erlang in the overview: typed readers want one."""
DISK_UNLIMITED: Final = 1 << 53
"""Free space of an unlimited disk in bytes: the most that JavaScript reads exactly."""
PROCESSES: Final = 1_048_576
"""Erlang's default bound of processes."""
RETAINED_S = [round(slots * entries * SLOT_S) for slots, entries in TIERS]
"""Seconds of each tier of samples."""


async def overview(request: ApiRequest) -> Response:
    """Return the overview: version, totals and listeners."""
    driver = request.driver
    monitors = request.rules.has_tag(MONITORING)
    rules = None if monitors else request.rules
    totals = await request.in_steps(totals_steps(driver, rules, request.user, sample_ranges(request)))
    row: Row = {
        "management_version": API_VERSION,
        "rabbitmq_version": API_VERSION,
        "erlang_version": NO_ERLANG,
        "erlang_full_version": f"Python {platform.python_version()}",
        "product_name": "Penstock",
        "product_version": driver.version,
        "cluster_name": cluster_name_of(driver),
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
        "penstock": {"build": driver.control.build},
    }
    return one(request, row)


def _churn(driver: BrokerDriver, totals: Row) -> Row:
    """Return RabbitMQ's `churn_rates`: counters of created and deleted objects. `totals` has the numbers that exist."""
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
    disk = driver.broker.gates.disk
    connections = len(request.event_loop.transports)
    return {
        "name": driver.name,
        "type": "ram",
        "running": True,
        "being_drained": False,
        "os_pid": str(os.getpid()),
        "uptime": round((request.event_loop.loop.time() - request.event_loop.started) * 1000),
        "processors": os.cpu_count() or 1,
        "mem_used": used_memory(),
        "mem_limit": memory_bytes() if limit >= UNLIMITED else limit,
        "mem_alarm": driver.memory_alarm(),
        # Without a store nothing is measured, and nothing can be used up.
        "disk_free": int(min(disk.free, DISK_UNLIMITED)),
        "disk_free_limit": _disk_free_limit(driver),
        "disk_free_alarm": driver.disk_alarm(),
        "fd_used": files or 0,
        "fd_total": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "sockets_used": connections,
        "sockets_total": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        # Erlang's processes and its queue of those that may run: threads, and none that waits.
        "proc_total": PROCESSES,
        "proc_used": threading.active_count(),
        "run_queue": 0,
        "rates_mode": "basic",
        "partitions": [],
        "exchange_types": exchange_types(),
        "auth_mechanisms": [
            {"name": "PLAIN", "description": "SASL PLAIN authentication mechanism", "enabled": True},
            {"name": "AMQPLAIN", "description": "QPid AMQPLAIN mechanism", "enabled": True},
        ],
        "applications": [{"name": "penstock", "description": "Penstock", "version": driver.version}],
        "contexts": [{name: item for name, item in each.items() if name != "node"} for each in _contexts(request)],
        "enabled_plugins": list(PLUGINS),
    }


def used_memory() -> int:
    """Return the resident memory of the process in bytes; where the system does not know it, the highest one so far."""
    return mapped_bytes(1) or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _disk_free_limit(driver: BrokerDriver) -> int:
    """Return the free space at which the gate of the disk closes; 0 without a store, or a limit."""
    room = driver.broker.gates.disk.room
    return 0 if driver.broker.journal is None or room is None else int(room.recheck_at())


def _open_files() -> int | None:
    """Return the number of open files; None if the system does not know. It lists them: for a thread."""
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return None


async def cluster_name(request: ApiRequest) -> Response:
    """Return the name of the cluster: the one that was set, or that of the node."""
    return json_response({"name": cluster_name_of(request.driver)})


async def auth(request: ApiRequest) -> Response:
    """Return how the console logs in: with a password, never by a redirect to an OAuth provider."""
    return json_response({"oauth_enabled": False})


async def version(request: ApiRequest) -> Response:
    """Return the version of RabbitMQ's API that this one follows."""
    return json_response(API_VERSION)


# Histories of the last 24 hours: rates, depths and gates


async def of_queue(request: ApiRequest) -> Response:
    """Show the history of a queue."""
    tiers: list[Row] = []
    for tier in _tiers(request):
        tiers.append(stats_sampler.of_queue(request.queue(), request.driver.stats, tier))
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
    return [stats_sampler.of_sum(counted, request.driver.stats, tier) for tier in _tiers(request)]


def _tiers(request: ApiRequest) -> list[int]:
    """Return the tiers that the query asks for by the seconds of their entries; all by default."""
    wanted = request.query.get("seconds")
    if wanted is None:
        return list(range(len(TIERS)))
    tiers = [tier for tier, seconds in enumerate(STEPS_S) if wanted == str(seconds)]
    if not tiers:
        raise bad_request(f"seconds must be one of {', '.join(map(str, STEPS_S))}, not {wanted}")
    return tiers


EXPORTED_AT_ONCE: Final = 100
"""Items of an export formatted per slice."""
IMPORT_OPTIONS: Final = frozenset({"skip_refused", "streams_as_queues"})
RABBITMQ: Final = "rabbitmq"
"""Value of `for` in an export for RabbitMQ."""


async def export(request: ApiRequest) -> Response:
    """Export the definitions of all virtual hosts or of one; `for=rabbitmq` leaves out entries that RabbitMQ
    refuses."""
    reader = request.query.get("for")
    if reader not in (None, RABBITMQ):
        raise bad_request(f"for must be {RABBITMQ}, or be left out")
    parts = _export(request, request.vhost_or_all(), reader == RABBITMQ)
    return LongAnswer(parts, request.http_request)


async def _export(request: ApiRequest, only: VirtualHost | None, for_rabbitmq: bool) -> AsyncIterator[bytes]:
    head = definitions_export.head(request.driver, only is None)
    yield json_octets(head)[:-1]
    for section in definitions_export.SECTIONS:
        if only is not None and section in definitions_export.FOR_ALL:
            continue
        before = b""
        yield b',"' + section.encode() + b'":['
        async for items in _collected(request, section, only):
            shapes = definitions_export.exported(items, only is None, for_rabbitmq)
            part = [json_octets(each) for each in shapes]
            if part:
                yield before + b",".join(part)
                before = b","
        yield b"]"
    yield b"}"


async def _collected(request: ApiRequest, section: str, only: VirtualHost | None) -> AsyncIterator[list[Item]]:
    """Yield the items of a section, some at a time, each once. Items created meanwhile may be missing."""
    some: list[Item] = []
    seen = 0
    for vhost, subjects in definitions_export.groups(request.driver, section, only):
        group = list(subjects)
        for start in range(0, len(group) or 1, EXPORTED_AT_ONCE):
            part = group[start : start + EXPORTED_AT_ONCE]
            some += [Item("", vhost, subject) for subject in part]
            seen += 1 + len(part)
            if seen >= EXPORTED_AT_ONCE:
                yield some
                some, seen = [], 0
                await request.pause()
    yield some
    await request.pause()


async def import_(request: ApiRequest) -> Response:
    """Import definitions: all or nothing; errors (400) name line and key. `dry_run=true` answers what would differ.

    With options that skip single entries, or change them, the answer lists the created and the skipped ones. Without
    them it is empty, as RabbitMQ's. With `job=true` the answer is the row of the import's job, before its end.
    """
    only = request.vhost_or_all()
    kind = request.http_request.headers.get("content-type", "")
    if kind.startswith("multipart/"):
        raise bad_request("definitions are read from a body in JSON, not from a form")
    words = request.query.getlist("skip")  # A name may have commas.
    skip = [each for word in words for each in ([word] if ":" in word else word.split(",")) if each]
    options = ImportOptions(skip, request.flag("skip_refused"), request.flag("streams_as_queues"))
    dry_run = request.flag("dry_run")
    body = await request.body(BYTES_MOST)
    vhost = None if only is None else only.name
    answer = await request.in_job(
        IMPORT,
        (Subject(DEFINITIONS, "", vhost or ""),),
        lambda progress: import_steps(request.driver, body, vhost, options, dry_run, progress),
    )
    if answer is None:
        return request.accepted()
    tells = dry_run or not IMPORT_OPTIONS.isdisjoint(request.query) or any(":" in each for each in skip)
    return json_response(answer) if tells else no_content(headers=overflow_header(answer.get("overflow")))
