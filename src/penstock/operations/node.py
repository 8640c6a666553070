"""The node: its description, with the figures of its process, and the histories of its queues and virtual hosts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.access.permission import MANAGEMENT, MONITORING
from penstock.connections.control_request import ControlRequest
from penstock.describe.list_kinds import seen_vhosts
from penstock.describe.stats_sampler import STEPS_S, closed_gates, ended, hour, of_queue, of_sum
from penstock.describe.table import API_VERSION, Row, field_at
from penstock.describe.vhost import churn, exchange_types, totals_steps
from penstock.errors import PreconditionFailed
from penstock.flow.level import UNLIMITED
from penstock.flow.series import MINUTES, SLOT_S, TIERS
from penstock.flow.wait import Waits
from penstock.flow.work import LOOKING_SHARE, Steps
from penstock.management.node import Node
from penstock.management.operation import ALL, CATALOGUE, NODE, OBJECT, Answer, Operation, Route, Waiting, looking
from penstock.operations import joins
from penstock.operations.lists import sample_ranges
from penstock.operations.parameters import cluster_name_of
from penstock.texts import worded

PLUGINS: Final[tuple[str, ...]] = ("rabbitmq_management", "rabbitmq_prometheus")
"""RabbitMQ's names of plugins whose features Penstock always has."""
NO_ERLANG: Final = "0"
"""Version of Erlang in the overview: typed readers want one."""
DISK_UNLIMITED: Final = 1 << 53
"""Free space of an unlimited disk in bytes: the most that JavaScript reads exactly."""
PROCESSES: Final = 1_048_576
"""Erlang's default bound of processes."""
RETAINED_S: Final = tuple([round(slots * entries * SLOT_S) for slots, entries in TIERS])
"""Seconds of each tier of samples."""


def _overview(node: Node, request: ControlRequest) -> Steps[Answer]:
    rules = request.access.rules
    monitors = rules.has_tag(MONITORING)
    ranges = sample_ranges(node, request)
    totals = yield from totals_steps(node, None if monitors else rules, request.access.user, ranges)
    listeners = node.process.listeners if monitors else []
    row: Row = {
        "management_version": API_VERSION,
        "rabbitmq_version": API_VERSION,
        "erlang_version": NO_ERLANG,
        "erlang_full_version": f"Python {node.process.python}",
        "product_name": "Penstock",
        "product_version": node.version,
        "cluster_name": cluster_name_of(node),
        "node": node.name,
        "rates_mode": "basic",
        "sample_retention_policies": {
            "global": list(RETAINED_S),
            "basic": list(RETAINED_S),
            "detailed": list(RETAINED_S[:1]),
        },
        "disable_stats": False,
        "enable_queue_totals": False,
        "exchange_types": exchange_types(),
        **totals,
        **({"churn_rates": _churn(node, totals)} if monitors else {}),
        "statistics_db_event_queue": 0,
        "listeners": [
            {"node": node.name, "protocol": protocol, "ip_address": host, "port": port, "socket_opts": {}}
            for protocol, host, port in listeners
        ],
        "contexts": [{"node": node.name, **each} for each in _contexts(node)] if monitors else [],
        "penstock": {"build": node.control.build},
    }
    return row


def _churn(node: Node, totals: Row) -> Row:
    """Return RabbitMQ's `churn_rates`: counters of created and deleted objects. `totals` has the numbers that exist."""
    channels, queues = field_at(totals, "object_totals.channels"), field_at(totals, "object_totals.queues")
    assert isinstance(channels, int) and isinstance(queues, int)
    return {**churn(node, node.connected, channels, queues)}


def _contexts(node: Node) -> list[Row]:
    return [
        {"description": "Penstock's HTTP API", "path": "/", "ip": host, "port": str(port)}
        for protocol, host, port in node.process.listeners
        if protocol == "http"
    ]


def _nodes(node: Node) -> Waits[Answer]:
    yield node.process.sample()
    return [_row(node)]


def _one(node: Node) -> Waits[Answer]:
    yield node.process.sample()
    return _row(node)


def _shown(node: Node, request: ControlRequest) -> Waiting | None:
    return Waiting(_one(node)) if request.text("name") == node.name else None


def _row(node: Node) -> Row:
    """Return the node in RabbitMQ's form, with the last sample of its process."""
    process = node.process
    last = process.last
    memory = node.broker.gates.memory
    limit = UNLIMITED if memory is None else int(memory.thresholds.stop.bytes)
    return {
        "name": node.name,
        "type": "ram",
        "running": True,
        "being_drained": False,
        "os_pid": str(process.pid),
        "uptime": round(process.uptime_s() * 1000),
        "processors": last.processors,
        "mem_used": last.memory_used,
        "mem_limit": last.memory_max if limit >= UNLIMITED else limit,
        "mem_alarm": node.memory_alarm(),
        # Without a store nothing is measured, and nothing can be used up.
        "disk_free": int(min(node.broker.gates.disk.free, DISK_UNLIMITED)),
        "disk_free_limit": _disk_free_limit(node),
        "disk_free_alarm": node.disk_alarm(),
        "fd_used": last.open_files,
        "fd_total": last.files_max,
        "sockets_used": process.sockets(),
        "sockets_total": last.files_max,
        # Erlang's processes and its queue of those that may run: threads, and none that waits.
        "proc_total": PROCESSES,
        "proc_used": last.threads,
        "run_queue": 0,
        "rates_mode": "basic",
        "partitions": [],
        "exchange_types": exchange_types(),
        "auth_mechanisms": [
            {"name": "PLAIN", "description": "SASL PLAIN authentication mechanism", "enabled": True},
            {"name": "AMQPLAIN", "description": "QPid AMQPLAIN mechanism", "enabled": True},
        ],
        "applications": [{"name": "penstock", "description": "Penstock", "version": node.version}],
        "contexts": _contexts(node),
        "enabled_plugins": list(PLUGINS),
    }


def _disk_free_limit(node: Node) -> int:
    """Return the free space at which the gate of the disk closes; 0 without a store, or a limit."""
    room = node.broker.gates.disk.room
    return 0 if node.broker.journal is None or room is None else int(room.recheck_at())


# Histories of the last 24 hours: rates, depths and gates


def _history_of_queue(node: Node, request: ControlRequest) -> Steps[Answer] | None:
    queue = request.vhost.queues.get(request.text("name"))
    if queue is None:
        return None
    row: Row = {"queue": queue.name, "vhost": queue.vhost}
    return _tiers_steps(node, row, _tiers(request), lambda tier: of_queue(queue, node.stats, tier))


def _history_of_vhost(node: Node, request: ControlRequest) -> Steps[Answer]:
    name = request.vhost.name
    counted = node.stats.vhosts.get(name)
    return _tiers_steps(node, {"vhost": name}, _tiers(request), lambda tier: of_sum(counted, node.stats, tier))


def _history_of_node(node: Node, request: ControlRequest) -> Steps[Answer]:
    counted = node.stats.node

    def read(tier: int) -> Row:
        return {**of_sum(counted, node.stats, tier), "closed_gates": closed_gates(node.stats, tier)}

    return _tiers_steps(node, {"node": node.name}, _tiers(request), read)


def _tiers_steps(node: Node, row: Row, tiers: list[int], read: Callable[[int], Row]) -> Steps[Answer]:
    """Return a history with the entries of tiers: one tier a step."""
    entries: list[Row] = []
    for tier in tiers:
        entries.append(read(tier))
        if node.broker.work.spend(LOOKING_SHARE):
            yield
    return {**row, "tiers": entries}


def _tiers(request: ControlRequest) -> list[int]:
    """Return the tiers that a request asks for by the seconds of their entries; all by default."""
    wanted = request.fields.get("seconds")
    if wanted is None:
        return list(range(len(TIERS)))
    tiers = [tier for tier, seconds in enumerate(STEPS_S) if wanted in (seconds, str(seconds))]
    if not tiers:
        raise PreconditionFailed(f"seconds must be one of {', '.join(map(str, STEPS_S))}, not {wanted}")
    return tiers


HOURS_MOST: Final = 50
"""Most queues of one answer: those of a page that a person sees."""
HOUR_WORK: Final = 25
"""Units of work to read the hour of a queue."""


def _hours(node: Node, request: ControlRequest) -> Steps[Answer]:
    """Answer the last hour of named queues: {queues: [[vhost, name], ...]}.

    Queues that do not exist, or that the user may not see, are left out. Raises PreconditionFailed (406).
    """
    given = request.fields.get("queues")
    if not isinstance(given, list) or len(given) > HOURS_MOST:
        found = f"{len(given):,} entries" if isinstance(given, list) else worded(given)
        raise PreconditionFailed(f"'queues' must be a list of at most {HOURS_MOST} queues, not {found}")
    seen = {vhost.name: vhost for vhost in seen_vhosts(node, request.access.rules)}
    hours: list[Row] = []
    for each in given:
        if not isinstance(each, list) or len(each) != 2 or not all(isinstance(part, str) for part in each):
            raise PreconditionFailed(f"a queue in 'queues' must be [vhost, name], not {worded(each)}")
        vhost = seen.get(str(each[0]))
        queue = None if vhost is None else vhost.queues.get(str(each[1]))
        if queue is not None:
            hours.append({"vhost": queue.vhost, "name": queue.name, **hour(queue, node.stats)})
            if node.broker.work.spend(HOUR_WORK):
                yield
    return {"seconds": STEPS_S[MINUTES], "end": ended(node.stats), "hours": hours}


HISTORY: Final = "/penstock/history"
OPERATIONS: Final[tuple[Operation, ...]] = (
    looking("", _overview, tag=MANAGEMENT, asks=ALL, join=joins.OVERVIEW, gives=OBJECT, routes=(
        Route("GET /overview", "Return the overview: version, totals and listeners."),
    )),
    looking("", lambda node, request: {"name": cluster_name_of(node)}, tag=MANAGEMENT, asks=CATALOGUE,
            routes=(
        Route("GET /cluster-name", "Return the name of the cluster: the one that was set, or that of the node."),
    )),
    looking("", lambda node, request: API_VERSION, tag=MANAGEMENT, asks=NODE, routes=(
        Route("GET /version", "Return the version of RabbitMQ's API that this one follows."),
    )),
    looking("", lambda node, request: Waiting(_nodes(node)), tag=MONITORING, asks=ALL, join=joins.NODES, routes=(
        Route("GET /nodes", "List the one node."),
    )),
    looking("", _shown, tag=MONITORING, asks=ALL, join=joins.NODES, routes=(
        Route("GET /nodes/{name}", "Show the one node."),
    )),
    looking("", _history_of_node, tag=MONITORING, asks=ALL, join=joins.HISTORY, routes=(
        Route(f"GET {HISTORY}", "Show the history of the node.", query=("seconds",)),
    )),
    looking("", _hours, ("queues",), tag=MANAGEMENT, asks=ALL, join=joins.HOURS, routes=(
        Route("POST /penstock/hours", f"Show the last hour of at most {HOURS_MOST} queues, by minutes: depths, and "
              "seconds for which the gate was closed. `queues` is a list of [vhost, name].", needed=("queues",)),
    )),
    looking("", _history_of_vhost, tag=MANAGEMENT, routes=(
        Route(f"GET {HISTORY}/{{vhost}}", "Show the history of a virtual host.", query=("seconds",)),
    )),
    looking("", _history_of_queue, tag=MANAGEMENT, routes=(
        Route(f"GET {HISTORY}/{{vhost}}/{{name}}", "Show the history of a queue.", query=("seconds",)),
    )),
)  # fmt: skip
