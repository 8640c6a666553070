"""Families of metrics about the node as a whole: identity, totals, gates by kind, disk, memory, times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.gates.disk import Disk
from penstock.core.vhost import VirtualHost
from penstock.flow.gate import Gate
from penstock.flow.histogram import Histogram
from penstock.flow.level import UNLIMITED
from penstock.flow.shared_limit import SharedLimit
from penstock.management.gate_descriptions import key_of
from penstock.management.metrics.exposition import COUNTER, GAUGE, HISTOGRAM, INFO, Exposition, Family, label
from penstock.management.rabbitmq_json import API_VERSION

if TYPE_CHECKING:
    from penstock.management.node import Node

KINDS: Final = ("address", "disk", "memory", "operator", "queue", "rate", "vhost")
"""All kinds of gates, so that each has samples from the start."""


class NodeFigures:
    """Figures that only the server has: its process, its store, its certificates."""

    def __init__(self) -> None:
        self.ready: bool = True
        """False while the broker stands by, or restores its store."""
        self.uptime_s: float = 0.0
        self.open_files: int | None = None
        self.files_max: int | None = None
        self.resident_bytes: int | None = None
        """None where the system does not tell."""
        self.sockets: int = 0
        self.python: str = ""
        """Version of Python."""
        self.compiled: bool = False
        self.store: str = ""
        """Kind of the store; empty without one."""
        self.transactions: Histogram | None = None
        """Seconds of the store's transactions; None without a store."""
        self.transaction_bytes: int = 0
        self.turns: Histogram | None = None
        self.long_entries: list[tuple[str, int, float]] = []
        """Kinds of entries, with the number of those that took longer than their units say, and by how many seconds."""
        self.certificates: list[tuple[str, str, float]] = []
        """File and name of each certificate, and the time of its end: seconds since the epoch."""
        self.connections_opened: int = 0
        self.spans: tuple[int, int] = (0, 0)
        """Spans of waiting publishes that were exported, and that were dropped."""
        self.process: list[tuple[Family, list[tuple[str, str, float]]]] = []
        """Families of the process: each with its samples, a name, labels and a value."""


class Totals:
    """Totals that are counted object by object."""

    def __init__(self) -> None:
        self.queues: int = 0
        self.queue_sums: list[int] = []
        """Sums of RabbitMQ's families of queues."""
        self.slack: dict[int, int] = {}
        """Bytes beyond the depths of queues in each shared limit, by its identity."""
        self.closed: dict[str, int] = dict.fromkeys(KINDS, 0)
        """Closed gates by kind."""
        self.connections: int = 0
        self.connection_sums: list[int] = []
        self.channels: int = 0
        self.channel_sums: list[int] = []
        self.consumers: int = 0
        self.publishers: int = 0
        """Channels that have published."""


IDENTITY: Final = Family("rabbitmq_identity_info", INFO, "RabbitMQ node & cluster identity info")
BUILD: Final = Family("rabbitmq_build_info", INFO, "RabbitMQ & Erlang/OTP version info: the version that is followed")
OUR_BUILD: Final = Family("penstock_build_info", INFO, "Version of Penstock and of Python, and whether it is compiled")
READY: Final = Family(
    "penstock_ready", GAUGE, "Whether clients are served (1), or the broker stands by or restores its store (0)"
)
STORE: Final = Family("penstock_store_info", INFO, "Kind of the store of the broker")


def write_identity(out: Exposition, node: Node, figures: NodeFigures) -> None:
    """Write what every answer begins with: by these labels RabbitMQ's boards choose node and cluster."""
    name = label("rabbitmq_node", node.name)
    cluster = ",".join((label("rabbitmq_cluster", node.name), label("rabbitmq_cluster_permanent_id", node.name)))
    version = label("rabbitmq_version", API_VERSION)
    product = ",".join((label("product_name", "Penstock"), label("product_version", node.control.version)))
    out.single(IDENTITY, 1, f"{name},{cluster}")
    prometheus = f'{version},prometheus_client_version="",prometheus_plugin_version="",erlang_version="",{product}'
    out.single(BUILD, 1, prometheus)
    compiled = label("compiled", "yes" if figures.compiled else "no")
    out.single(OUR_BUILD, 1, f"{label('version', node.control.version)},{label('python', figures.python)},{compiled}")
    out.single(READY, figures.ready)
    if figures.store:
        out.single(STORE, 1, label("kind", figures.store))


# RabbitMQ's


UPTIME: Final = Family("rabbitmq_erlang_uptime_seconds", GAUGE, "Node uptime; there is no Erlang")
OPEN_FILES: Final = Family("rabbitmq_process_open_fds", GAUGE, "Open file descriptors")
FILES_MAX: Final = Family("rabbitmq_process_max_fds", GAUGE, "Open file descriptors limit")
SOCKETS: Final = Family("rabbitmq_process_open_tcp_sockets", GAUGE, "Open TCP sockets of AMQP")
RESIDENT: Final = Family("rabbitmq_process_resident_memory_bytes", GAUGE, "Memory used in bytes")
MEMORY_LIMIT: Final = Family(
    "rabbitmq_resident_memory_limit_bytes", GAUGE, "Memory limit in bytes: depth of the node at which its gate closes"
)
DISK_FREE: Final = Family("rabbitmq_disk_space_available_bytes", GAUGE, "Disk space available in bytes")
DISK_FREE_LIMIT: Final = Family(
    "rabbitmq_disk_space_available_limit_bytes",
    GAUGE,
    "Free disk space in bytes below which the gate of the disk closes",
)
MEMORY_ALARM: Final = Family(
    "rabbitmq_alarms_memory_used_watermark", GAUGE, "is 1 if the gate of the node's memory is closed"
)
DISK_ALARM: Final = Family(
    "rabbitmq_alarms_free_disk_space_watermark", GAUGE, "is 1 if a gate of the disk stops all persistent messages"
)
SYNCS: Final = Family(
    "rabbitmq_io_sync_ops_total", COUNTER, "Total number of I/O sync operations: durable transactions of the store"
)
SYNC_S: Final = Family("rabbitmq_io_sync_time_seconds_total", COUNTER, "Total I/O sync time, of whole transactions")
WRITTEN: Final = Family("rabbitmq_io_write_bytes_total", COUNTER, "Total number of I/O bytes written by transactions")
LOGINS: Final = Family("rabbitmq_auth_attempts_total", COUNTER, "Total number of authorization attempts")
LOGINS_OK: Final = Family(
    "rabbitmq_auth_attempts_succeeded_total", COUNTER, "Total number of successful authentication attempts"
)
LOGINS_REFUSED: Final = Family(
    "rabbitmq_auth_attempts_failed_total", COUNTER, "Total number of failed authentication attempts"
)
OPENED: Final = Family("rabbitmq_connections_opened_total", COUNTER, "Total number of connections opened")
CLOSED: Final = Family("rabbitmq_connections_closed_total", COUNTER, "Total number of connections closed or terminated")
OPENED_CHANNELS: Final = Family("rabbitmq_channels_opened_total", COUNTER, "Total number of channels opened")
CLOSED_CHANNELS: Final = Family("rabbitmq_channels_closed_total", COUNTER, "Total number of channels closed")
DECLARED: Final = Family("rabbitmq_queues_declared_total", COUNTER, "Total number of queues declared")
CREATED: Final = Family("rabbitmq_queues_created_total", COUNTER, "Total number of queues created, or restored")
DELETED: Final = Family("rabbitmq_queues_deleted_total", COUNTER, "Total number of queues deleted")
PUBLISHERS: Final = Family(
    "rabbitmq_global_publishers", GAUGE, "Publishers currently connected: channels that published"
)
GLOBAL_CONSUMERS: Final = Family("rabbitmq_global_consumers", GAUGE, "Consumers currently connected")
SOCKETS_MAX: Final = Family("rabbitmq_process_max_tcp_sockets", GAUGE, "Open TCP sockets limit: that of open files")
QUEUES: Final = Family("rabbitmq_queues", GAUGE, "Queues available")
CONNECTIONS: Final = Family("rabbitmq_connections", GAUGE, "Connections currently open")
CHANNELS: Final = Family("rabbitmq_channels", GAUGE, "Channels currently open")
CONSUMERS: Final = Family("rabbitmq_consumers", GAUGE, "Consumers currently connected")
EXCHANGES: Final = Family("penstock_exchanges", GAUGE, "Exchanges of all virtual hosts")
BINDINGS: Final = Family(
    "penstock_bindings", GAUGE, "Bindings of all virtual hosts, without those of the default exchange"
)
VHOSTS: Final = Family("penstock_virtual_hosts", GAUGE, "Virtual hosts")
UNROUTABLE: Final = Family(
    "penstock_unroutable_messages_total",
    COUNTER,
    "Messages that reached no queue: returned to their publisher or dropped",
)


def write_node(out: Exposition, node: Node, figures: NodeFigures, totals: Totals) -> None:
    """Write the node's families under RabbitMQ's names, as far as there is the figure."""
    disk = node.broker.gates.disk
    memory = node.broker.gates.memory
    out.single(UPTIME, figures.uptime_s)
    for family, value in (
        (OPEN_FILES, figures.open_files),
        (FILES_MAX, figures.files_max),
        (RESIDENT, figures.resident_bytes),
        (SOCKETS_MAX, figures.files_max),
    ):
        if value is not None:
            out.single(family, value)
    out.single(SOCKETS, figures.sockets)
    if memory is not None:
        out.single(MEMORY_LIMIT, int(memory.thresholds.stop.bytes))
    if disk.free < UNLIMITED:
        out.single(DISK_FREE, int(disk.free))
        out.single(DISK_FREE_LIMIT, 0 if disk.room is None else int(disk.room.recheck_at()))
    out.single(MEMORY_ALARM, node.memory_alarm())
    out.single(DISK_ALARM, node.disk_alarm())
    if figures.transactions is not None:
        out.single(SYNCS, figures.transactions.cumulative()[-1])
        out.single(SYNC_S, figures.transactions.sum_s)
        out.single(WRITTEN, figures.transaction_bytes)
    accepted, refused = int(node.audit.logins_accepted), int(node.audit.logins_refused)
    out.single(LOGINS, accepted + refused)
    out.single(LOGINS_OK, accepted)
    out.single(LOGINS_REFUSED, refused)
    out.single(OPENED, figures.connections_opened)
    out.single(CLOSED, figures.connections_opened - len(node.connections))
    out.single(CONNECTIONS, totals.connections)
    out.single(CHANNELS, totals.channels)
    out.single(CONSUMERS, totals.consumers)
    out.single(QUEUES, totals.queues)
    out.single(PUBLISHERS, totals.publishers)
    out.single(GLOBAL_CONSUMERS, totals.consumers)
    vhosts = list(node.broker.vhosts.values())
    write_churn(out, vhosts, totals)
    out.single(EXCHANGES, sum([len(vhost.exchanges) for vhost in vhosts]))
    out.single(BINDINGS, sum([int(vhost.bindings.count) for vhost in vhosts]))
    out.single(VHOSTS, len(vhosts))
    out.single(UNROUTABLE, int(node.broker.unroutable))


def write_churn(out: Exposition, vhosts: list[VirtualHost], totals: Totals) -> None:
    """Write what came and went since the start, in the virtual hosts that there are."""
    opened = sum([int(vhost.churn.channels_opened) for vhost in vhosts])
    created = sum([int(vhost.churn.queues_created) for vhost in vhosts])
    out.single(OPENED_CHANNELS, opened)
    out.single(CLOSED_CHANNELS, max(opened - totals.channels, 0))
    out.single(DECLARED, sum([int(vhost.churn.queues_declared) for vhost in vhosts]))
    out.single(CREATED, created)
    out.single(DELETED, max(created - totals.queues, 0))


# Gates


GATES_CLOSED: Final = Family("penstock_gates_closed", GAUGE, "Closed gates by kind")
CROSSINGS: Final = Family("penstock_gate_crossings_total", COUNTER, "Times that gates closed, by kind")
CLOSED_S: Final = Family("penstock_gate_closed_seconds_total", COUNTER, "Seconds that gates were closed, by kind")
BLOCKED: Final = Family("penstock_blocked_producers", GAUGE, "Producers that a gate blocks now, by the kind of gate")
BLOCKS: Final = Family("penstock_producer_blocks_total", COUNTER, "Times that a gate blocked a producer, by kind")
BLOCKED_S: Final = Family(
    "penstock_producers_blocked_seconds_total",
    COUNTER,
    "Seconds that producers were blocked, the sum over all, by kind",
)
RESUME: Final = Family(
    "penstock_resume_latency_seconds", HISTOGRAM,
    "Seconds from the opening of a gate until a producer that it blocked goes on; 0 within one turn",
)  # fmt: skip
HOLDS: Final = Family(
    "penstock_publish_hold_seconds",
    HISTOGRAM,
    "Seconds for which publishes, commits and dead letters were held until their turn came, without refused ones",
)
SHARED_OPEN: Final = Family("penstock_gate_open", GAUGE, "Whether a shared gate is open (1): all but queues' and rates")
SHARED_BLOCKED: Final = Family("penstock_gate_blocked_producers", GAUGE, "Producers that a shared gate blocks now")
SHARED_DEPTH: Final = Family(
    "penstock_gate_depth_bytes", GAUGE, "Bytes (charges) below a shared gate: of the memory and of a virtual host exact"
)
SHARED_CAPACITY: Final = Family(
    "penstock_gate_capacity_bytes", GAUGE, "Capacity of a shared gate; +Inf without a limit"
)


def write_gates(out: Exposition, node: Node, totals: Totals) -> None:
    """Write the gates by kind: totals since the start, and what is closed and blocked now."""
    flow = node.broker.turns.totals
    now = node.broker.now
    kinds = [(f'kind="{kind}"', kind, flow.of(kind)) for kind in KINDS]
    out.begin(GATES_CLOSED)
    for labels, kind, _ in kinds:
        out.add(GATES_CLOSED.name, labels, totals.closed[kind])
    out.begin(CROSSINGS)
    for labels, _, found in kinds:
        out.add(CROSSINGS.name, labels, int(found.crossings))
    out.begin(CLOSED_S)
    for labels, _, found in kinds:
        out.add(CLOSED_S.name, labels, found.closed.seconds(now))
    out.begin(BLOCKED)
    for labels, _, found in kinds:
        out.add(BLOCKED.name, labels, int(found.blocked.present))
    out.begin(BLOCKS)
    for labels, _, found in kinds:
        out.add(BLOCKS.name, labels, int(found.blocks))
    out.begin(BLOCKED_S)
    for labels, _, found in kinds:
        out.add(BLOCKED_S.name, labels, found.blocked.seconds(now))
    out.histogram(RESUME, flow.resume_latency)
    out.histogram(HOLDS, flow.holds)


class SharedGate:
    """A gate besides those of queues and rates, with its labels."""

    def __init__(self, gate: Gate, vhost: str) -> None:
        self.gate = gate
        self.labels = ",".join((label("kind", key_of(gate)), label("vhost", vhost), label("gate", gate.name)))


def shared_gates(node: Node) -> list[SharedGate]:
    """Return the shared gates: of memory, disk, virtual hosts and addresses, and the operator's."""
    gates = node.broker.gates
    found: list[SharedGate] = []
    if gates.memory is not None:
        found.append(SharedGate(gates.memory.gate, ""))
    if node.broker.journal is not None:
        for gate in gates.disk.gates():
            vhost = None if gate.owner is None else gate.owner.vhost_name()
            found.append(SharedGate(gate, vhost or ""))
    for name, limit in gates.vhosts.items():
        found.append(SharedGate(limit.gate, name))
    for key, depth in gates.depths.items():
        found.append(SharedGate(depth.gate, key.partition("\n")[0]))
    for each in gates.operator_gates.values():
        found.append(SharedGate(each.gate, each.vhost))
    return found


def write_shared_gates(out: Exposition, gates: list[SharedGate], totals: Totals) -> None:
    """Write shared gates, each with its state, its producers, and its depth without slack if it has one."""
    out.begin(SHARED_OPEN)
    for each in gates:
        out.add(SHARED_OPEN.name, each.labels, each.gate.open)
    out.begin(SHARED_BLOCKED)
    for each in gates:
        out.add(SHARED_BLOCKED.name, each.labels, len(each.gate.blocked))
    measured = [(each, each.gate.measure()) for each in gates]
    out.begin(SHARED_DEPTH)
    for each, measure in measured:
        if measure is not None:
            out.add(SHARED_DEPTH.name, each.labels, max(int(measure.bytes) - _slack(each.gate, totals), 0))
    out.begin(SHARED_CAPACITY)
    for each, measure in measured:
        if measure is not None:
            capacity = int(measure.thresholds.capacity.bytes)
            out.add(SHARED_CAPACITY.name, each.labels, float("inf") if capacity >= UNLIMITED else capacity)


def _slack(gate: Gate, totals: Totals) -> int:
    """Return the slack in a shared limit, as it was when the queues were gone through; near its thresholds none."""
    limit = gate.owner
    return totals.slack.get(id(limit), 0) if isinstance(limit, SharedLimit) and not limit.exact else 0


# Disk, store, times, certificates


DISK_USED: Final = Family("penstock_disk_used_bytes", GAUGE, "Bytes of the store at the last measurement")
UNWRITTEN: Final = Family("penstock_disk_unwritten_bytes", GAUGE, "Bytes (charges) that the store has still to write")
TRANSACTIONS: Final = Family(
    "penstock_store_transaction_seconds", HISTOGRAM,
    "Seconds of a durable transaction of the store, with its wait for the disk (fsync)",
)  # fmt: skip
TURNS: Final = Family(
    "penstock_turn_seconds", HISTOGRAM, "Seconds of a turn of the event loop, from its first input to the last output"
)
LONG_ENTRIES: Final = Family(
    "penstock_long_entries_total",
    COUNTER,
    "Entries of the event loop that took much longer than their units of work say, by kind (PST-2013)",
)
LONG_ENTRIES_S: Final = Family(
    "penstock_long_entries_seconds_total", COUNTER, "Seconds that they took longer than their units of work say"
)
CERTIFICATE: Final = Family(
    "penstock_tls_certificate_expiry_timestamp_seconds",
    GAUGE,
    "Time at which a certificate of TLS ends, since the epoch",
)
REFUSED: Final = Family(
    "penstock_logins_refused_total",
    COUNTER,
    "Logins that were refused: wrong passwords, back-off, users without access",
)


SPANS: Final = Family(
    "penstock_trace_spans_total", COUNTER, "Spans of waiting publishes that a collector of OpenTelemetry has taken"
)
SPANS_DROPPED: Final = Family(
    "penstock_trace_spans_dropped_total",
    COUNTER,
    "Those that were dropped: it took none or was too slow, or too many came at once",
)


def write_times(out: Exposition, node: Node, figures: NodeFigures) -> None:
    """Write the store, the turns, the certificates, refused logins, and spans."""
    if node.broker.journal is not None:
        disk: Disk = node.broker.gates.disk
        out.single(DISK_USED, int(disk.used))
        out.single(UNWRITTEN, 0 if disk.backlog is None else int(disk.backlog.unwritten()))
    if figures.transactions is not None:
        out.histogram(TRANSACTIONS, figures.transactions)
    if figures.turns is not None:
        out.histogram(TURNS, figures.turns)
    out.begin(LONG_ENTRIES)
    for kind, count, _ in figures.long_entries:
        out.add(LONG_ENTRIES.name, label("kind", kind), count)
    out.begin(LONG_ENTRIES_S)
    for kind, _, seconds in figures.long_entries:
        out.add(LONG_ENTRIES_S.name, label("kind", kind), seconds)
    out.begin(CERTIFICATE)
    for file, name, ends in figures.certificates:
        out.add(CERTIFICATE.name, f"{label('file', file)},{label('name', name)}", ends)
    out.single(REFUSED, int(node.audit.logins_refused))
    out.single(SPANS, figures.spans[0])
    out.single(SPANS_DROPPED, figures.spans[1])
    for family, samples in figures.process:
        out.begin(family)
        for name, labels, value in samples:
            out.add(name, labels, value)
