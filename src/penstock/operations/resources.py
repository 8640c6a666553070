"""Resources of the node against their limits: disk, memory, connections, descriptors, store, certificates, listeners.

Forecasts are those of the alarms: seconds until a limit is reached, if the rate of the last minute was steady.
"""

from __future__ import annotations

from typing import Final

from penstock.access.permission import MONITORING
from penstock.connections.control_request import ControlRequest
from penstock.describe.queue_state import NORMAL, STOP, WARN
from penstock.describe.session import peer_of
from penstock.describe.table import Row
from penstock.flow.level import UNLIMITED
from penstock.flow.wait import Waits
from penstock.management.alarm_checks import AlarmThresholds, is_soon
from penstock.management.alarms import FORECAST_DISK, FORECAST_MEMORY, FORECAST_QUOTA
from penstock.management.node import Node
from penstock.management.operation import ALL, Answer, Operation, Route, Waiting, looking
from penstock.operations.joins import PORTS, RESOURCES

NEARLY: Final = 0.9
"""Part of a limit above which a resource without alarms of its own is shown as one that will hurt."""
COUNTED_A_UNIT: Final = 100
"""Connections that are counted by listener for one unit of work."""


def _resources(node: Node, has_ports: bool) -> Waits[Answer]:
    yield node.process.sample()
    thresholds = AlarmThresholds(node.broker.table)
    rows = [*_disk(node, thresholds), *_memory(node), *_sockets(node)]
    ports = _ports(node)
    return {
        "node": node.name,
        "version": node.version,
        "build": node.control.build,
        "uptime_s": round(node.process.uptime_s()),
        "memory_used": node.process.last.memory_used,
        "processors": node.process.last.processors,
        "store": _store(node),
        "resources": rows,
        "certificates": _certificates(node, thresholds),
        "listeners": _listeners(node, ports),
        **({PORTS: ports} if has_ports else {}),
    }


def _resource(
    name: str, unit: str, used: int, limit: int | None, stop: int | None = None, resume: int | None = None,
    hurts_in_s: float | None = None, tone: str = NORMAL,
) -> Row:  # fmt: skip
    """Return a resource: what is used, where its gate closes and opens, and all that there is (None: no limit)."""
    return {
        "name": name,
        "unit": unit,
        "used": used,
        "limit": limit,
        "stop": stop,
        "resume": resume,
        "hurts_in_s": None if hurts_in_s is None else round(hurts_in_s, 1),
        "tone": tone,
    }


def _disk(node: Node, thresholds: AlarmThresholds) -> list[Row]:
    """Return the file system of the store, and the quota of the broker; nothing without a store."""
    disk, rows = node.broker.gates.disk, []
    forecasts = node.alarms.forecasts
    if node.broker.journal is None:
        return []
    room = disk.room
    if room is not None and room.total > 0 and disk.free != UNLIMITED:
        total, least = int(room.total), int(room.recheck_at())
        hurts_in_s = forecasts.get(FORECAST_DISK)
        low = disk.free - disk.needed - least < thresholds.disk_low(room.total)
        tone = STOP if not room.gate.open else WARN if low or is_soon(hurts_in_s) else NORMAL
        used = total - int(disk.free)
        rows.append(
            _resource("disk", "bytes", used, total, total - least, total - int(room.resume()), hurts_in_s, tone)
        )
    quota = disk.quota
    if quota is not None and quota.overfull != UNLIMITED:
        hurts_in_s = forecasts.get(FORECAST_QUOTA)
        low = quota.bytes > quota.underfull or is_soon(hurts_in_s)
        tone = STOP if not quota.gate.open else WARN if low else NORMAL
        stop = int(quota.overfull)
        rows.append(_resource("store", "bytes", int(quota.bytes), stop, stop, int(quota.underfull), hurts_in_s, tone))
    return rows


def _memory(node: Node) -> list[Row]:
    memory = node.broker.gates.memory
    if memory is None:
        return []
    limits = memory.thresholds
    capacity, stop, resume = [int(each.bytes) for each in (limits.capacity, limits.stop, limits.resume)]
    hurts_in_s = node.alarms.forecasts.get(FORECAST_MEMORY)
    tone = STOP if not memory.gate.open else WARN if is_soon(hurts_in_s) else NORMAL
    most = _known(capacity) or _known(stop)
    return [_resource("memory", "bytes", int(memory.bytes), most, _known(stop), _known(resume), hurts_in_s, tone)]


def _known(amount: int) -> int | None:
    return None if amount >= UNLIMITED else amount


def _sockets(node: Node) -> list[Row]:
    """Return the connections, and the open files with sockets."""
    process = node.process
    most = node.services.connection_limits.start.connections_max or None
    counted = [("connections", len(node.connections), most)]
    counted.append(("files", process.last.open_files, process.last.files_max or None))
    return [
        _resource(name, "", used, limit, tone=WARN if limit and used >= NEARLY * limit else NORMAL)
        for name, used, limit in counted
    ]


def _store(node: Node) -> Row:
    """Return the store: whether there is one, what it uses, what is not yet written, and why it fails."""
    disk = node.broker.gates.disk
    fault = disk.fault
    return {
        "kept": node.broker.journal is not None,
        "used": int(disk.used),
        "unwritten": 0 if disk.backlog is None else int(disk.backlog.unwritten()),
        "fails": None if fault.gate.open else fault.reason,
    }


def _certificates(node: Node, thresholds: AlarmThresholds) -> list[Row]:
    wall = node.broker.now + node.broker.wall_offset
    return [
        {
            "file": file,
            "name": name or None,
            "ends": round(ends * 1000),
            "left_s": round(ends - wall),
            "tone": STOP if ends <= wall else WARN if ends - wall <= thresholds.certificate_s else NORMAL,
        }
        for file, name, ends in node.certificates.ends()
    ]


def _ports(node: Node) -> Row:
    """Return the numbers of connections by the port of their listener."""
    counts: dict[str, int] = {}
    for connection in node.connections.values():
        port = peer_of(connection.peer.local)["peer_port"]
        if isinstance(port, int):
            counts[str(port)] = counts.get(str(port), 0) + 1
    node.broker.work.done += len(node.connections) // COUNTED_A_UNIT
    return {**counts}


def _listeners(node: Node, ports: Row) -> list[Row]:
    """Return the listeners with the numbers of their connections; those of HTTP are not counted."""
    return [
        {
            "protocol": protocol,
            "address": host,
            "port": port,
            "connections": None if protocol.startswith("http") else ports.get(str(port), 0),
        }
        for protocol, host, port in node.process.listeners
    ]


def _run(node: Node, request: ControlRequest) -> Waiting:
    return Waiting(_resources(node, request.fields.get(PORTS) is True))


OPERATIONS: Final[tuple[Operation, ...]] = (
    looking("", _run, tag=MONITORING, asks=ALL, join=RESOURCES, routes=(
        Route("GET /penstock/resources", "Show the disk, memory, connections, files, store, certificates and "
              "listeners of the node against their limits, with forecasts."),
    )),
)  # fmt: skip
