"""The node as a whole, in metrics: identity, totals, gates by kind, disk, memory, times, and counts of messages.

Counts of messages never fall: counts of ended channels and virtual hosts are added to the node. The sums are from the
last pass of the sampler, seconds ago (stats_sampler.py); counts of single objects are present ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from penstock.core.consume.session import Session
from penstock.core.gates.rate_gate import RateGate
from penstock.core.publish.session_counts import tally_of
from penstock.describe.exposition import HISTOGRAM, Exposition, Family, label
from penstock.describe.gate import key_of
from penstock.describe.session import CONSUMING, PUBLISHING
from penstock.describe.table import API_VERSION, DescribedNode, Field, Reading, Table, metric, or_infinity, or_none
from penstock.flow.gate import Gate
from penstock.flow.gate_stats import Histogram, KindTotals
from penstock.flow.series import TALLY_KEYS, Tally
from penstock.flow.shared_limit import SharedLimit

T = TypeVar("T")
KINDS: Final = ("address", "disk", "memory", "operator", "queue", "rate", "vhost")
"""All kinds of gates, so that each has samples from the start."""


class NodeFigures:
    """Figures that only the server knows: its process, its store, its certificates."""

    def __init__(self) -> None:
        self.ready: bool = True
        """False while the broker is a standby, or restores its store."""
        self.uptime_s: float = 0.0
        self.open_files: int | None = None
        self.files_max: int | None = None
        self.resident_bytes: int | None = None
        """Resident memory in bytes; None if the system does not report it."""
        self.sockets: int = 0
        self.python: str = ""
        """Version of Python."""
        self.build: str = ""
        """Form and last change of the build."""
        self.store: str = ""
        """Kind of the store; empty without one."""
        self.transactions: Histogram | None = None
        """Seconds of the store's transactions; None without a store."""
        self.transaction_bytes: int = 0
        self.turns: Histogram | None = None
        self.long_entries: list[tuple[str, int, float]] = []
        """Kinds of entries, with the number of entries that took longer than their units, and the excess in seconds."""
        self.jobs: dict[str, int] = {}
        """Number of jobs that are not done, by state."""
        self.jobs_ended: dict[str, int] = {}
        """Number of jobs that have ended since the start, by state."""
        self.alarms: dict[str, int] = {}
        """Number of raised alarms by kind."""
        self.hook: dict[str, int] = {}
        """Changes of alarms for the web hook, by their fate."""
        self.certificates: list[tuple[str, str, float]] = []
        """File and name of each certificate, and the time of its end: seconds since the epoch."""
        self.connections_opened: int = 0
        self.spans: tuple[int, int] = (0, 0)
        """Spans of waiting publishes that were exported, and that were dropped."""
        self.process: list[tuple[Family, list[tuple[str, str, float]]]] = []
        """Families of the process: each with its samples, a name, labels and a value."""
        self.totals = Totals()


class Totals:
    """Totals that are counted object by object."""

    def __init__(self) -> None:
        self.sums: dict[str, int] = {}
        """Sums over objects, by family."""
        self.slack: dict[int, int] = {}
        """Bytes beyond the depths of queues in each shared limit, by its identity."""
        self.closed: dict[str, int] = dict.fromkeys(KINDS, 0)
        """Closed gates by kind."""
        self.queues: int = 0
        self.connections: int = 0
        self.channels: int = 0
        self.consumers: int = 0
        self.publishers: int = 0
        """Channels that have published."""
        self.churn: dict[str, int] = {}
        """Counters of created and deleted objects, under RabbitMQ's names."""


IDENTITY: Final = Family("rabbitmq_identity_info", "RabbitMQ node & cluster identity info")
BUILD: Final = Family("rabbitmq_build_info", "RabbitMQ & Erlang/OTP version info: the version that is followed")
OUR_BUILD: Final = Family("penstock_build_info", "Version of Penstock and of Python, and its build")
READY: Final = Family(
    "penstock_ready", "Whether clients are served (1), or the broker stands by or restores its store (0)"
)
STORE: Final = Family("penstock_store_info", "Kind of the store of the broker")
IDENTITIES: Final[tuple[Family, ...]] = (IDENTITY, BUILD, OUR_BUILD, READY, STORE)
"""Families at the beginning of every answer, in its order."""


def write_identity(out: Exposition, node: DescribedNode, figures: NodeFigures) -> None:
    """Write the beginning of every answer: RabbitMQ's dashboards choose node and cluster by these labels."""
    name = label("rabbitmq_node", node.name)
    cluster = ",".join((label("rabbitmq_cluster", node.name), label("rabbitmq_cluster_permanent_id", node.name)))
    version = label("rabbitmq_version", API_VERSION)
    product = ",".join((label("product_name", "Penstock"), label("product_version", node.version)))
    out.single(IDENTITY, 1, f"{name},{cluster}")
    prometheus = f'{version},prometheus_client_version="",prometheus_plugin_version="",erlang_version="",{product}'
    out.single(BUILD, 1, prometheus)
    compiled = label("compiled", "yes" if figures.build.startswith("compiled") else "no")
    ours = (label("version", node.version), label("python", figures.python), compiled, label("build", figures.build))
    out.single(OUR_BUILD, 1, ",".join(ours))
    out.single(READY, figures.ready)
    if figures.store:
        out.single(STORE, 1, label("kind", figures.store))


# Counts of messages


COUNTS: Final = (
    ("publish", PUBLISHING, "messages_published", "messages_received", "messages published into an exchange"),
    ("confirm", PUBLISHING, "messages_confirmed", "messages_confirmed",
     "messages published into an exchange and confirmed to the publisher"),
    ("return_unroutable", PUBLISHING, "messages_unroutable_returned", "messages_unroutable_returned",
     "messages published as mandatory and returned to the publisher as unroutable"),
    ("drop_unroutable", PUBLISHING, "messages_unroutable_dropped", "messages_unroutable_dropped",
     "messages published as non-mandatory and dropped as unroutable"),
    ("get", CONSUMING, "get_ack", "messages_delivered_get_manual_ack",
     "messages fetched with basic.get in manual acknowledgement mode"),
    ("get_no_ack", CONSUMING, "get", "messages_delivered_get_auto_ack",
     "messages fetched with basic.get in automatic acknowledgement mode"),
    ("deliver", CONSUMING, "messages_delivered_ack", "messages_delivered_consume_manual_ack",
     "messages delivered to consumers in manual acknowledgement mode"),
    ("deliver_no_ack", CONSUMING, "messages_delivered", "messages_delivered_consume_auto_ack",
     "messages delivered to consumers in automatic acknowledgement mode"),
    ("redeliver", CONSUMING, "messages_redelivered", "messages_redelivered", "messages redelivered to consumers"),
    ("ack", CONSUMING, "messages_acked", "messages_acknowledged", "messages acknowledged by consumers"),
    ("get_empty", CONSUMING, "get_empty", "messages_get_empty", "times basic.get fetched no message"),
)  # fmt: skip
"""Each count of a tally: its key, group, suffixes of the names of a channel's family and of the node's, and help
text."""


def _tally(node: DescribedNode) -> Tally:
    return node.stats.node.tally


def _of_channel(key: str) -> Callable[[Session, Reading], object]:
    index = TALLY_KEYS.index(key)
    return lambda session, at: tally_of(session).values()[index]


def _of_node(key: str) -> Callable[[NodeFigures, Reading], object]:
    index = TALLY_KEYS.index(key)
    return lambda figures, at: _tally(at.node).values()[index]


def _routed(figures: NodeFigures, at: Reading) -> object:
    tally = _tally(at.node)
    return int(tally.publish - tally.return_unroutable - tally.drop_unroutable)


def _delivered(figures: NodeFigures, at: Reading) -> object:
    tally = _tally(at.node)
    return int(tally.deliver + tally.deliver_no_ack + tally.get + tally.get_no_ack)


def _count(of: str, end: str, value: Callable[[T, Reading], object], what: str, group: str = "") -> Field[T]:
    return metric(f"rabbitmq_{of}_{end}_total", value, f"Total number of {what}", group)


CHANNEL_COUNTS: Final[tuple[Field[Session], ...]] = tuple(
    [_count("channel", end, _of_channel(key), what, group) for key, group, end, _, what in COUNTS]
)
"""Counts of each channel; at `/metrics` the counts of the node, without labels."""


# The node


def _memory_limit(figures: NodeFigures, at: Reading) -> object:
    memory = at.node.broker.gates.memory
    return None if memory is None else int(memory.thresholds.stop.bytes)


def _free_limit(figures: NodeFigures, at: Reading) -> object:
    disk = at.node.broker.gates.disk
    if or_none(disk.free) is None:
        return None
    return 0 if disk.room is None else int(disk.room.recheck_at())


def _unwritten(figures: NodeFigures, at: Reading) -> object:
    disk = at.node.broker.gates.disk
    if at.node.broker.journal is None:
        return None
    return 0 if disk.backlog is None else int(disk.backlog.unwritten())


def _syncs(figures: NodeFigures, at: Reading) -> object:
    return None if figures.transactions is None else figures.transactions.cumulative()[-1]


NODE: Final[Table[NodeFigures]] = Table(
    *[_count("global", end, _of_node(key), what) for key, _, _, end, what in COUNTS],
    metric("rabbitmq_global_messages_routed_total", _routed,
           "Total number of messages routed to queues; one that several queues took counts once"),
    metric("rabbitmq_global_messages_delivered_total", _delivered, "Total number of messages delivered to consumers"),
    *[_count("channel", end, _of_node(key), what) for key, _, end, _, what in COUNTS],
    metric("rabbitmq_queue_messages_published_total", _routed,
           "Total number of messages published to queues; of the node one that several queues took counts once"),
    metric("penstock_dropped_messages_total", lambda figures, at: int(at.node.broker.losses.dropped),
           "Messages that overflow policies dropped"),
    metric("penstock_refused_messages_total", lambda figures, at: int(at.node.broker.losses.refused),
           "Messages that overflow policies refused"),
    metric("penstock_expired_messages_total", lambda figures, at: int(at.node.broker.losses.expired),
           "Messages that expired"),
    metric("penstock_dead_lettered_messages_total", lambda figures, at: int(at.node.broker.losses.dead_lettered),
           "Messages that became dead letters"),
    metric("penstock_lost_dead_letters_total", lambda figures, at: int(at.node.broker.losses.dead_letters_lost),
           "Dead letters that went nowhere"),
    metric("rabbitmq_erlang_uptime_seconds", lambda figures, at: figures.uptime_s, "Node uptime; there is no Erlang"),
    metric("rabbitmq_process_open_fds", lambda figures, at: figures.open_files, "Open file descriptors"),
    metric("rabbitmq_process_max_fds", lambda figures, at: figures.files_max, "Open file descriptors limit"),
    metric("rabbitmq_process_resident_memory_bytes", lambda figures, at: figures.resident_bytes,
           "Memory used in bytes"),
    metric("rabbitmq_process_max_tcp_sockets", lambda figures, at: figures.files_max,
           "Open TCP sockets limit: that of open files"),
    metric("rabbitmq_process_open_tcp_sockets", lambda figures, at: figures.sockets, "Open TCP sockets of AMQP"),
    metric("rabbitmq_resident_memory_limit_bytes", _memory_limit,
           "Memory limit in bytes: depth of the node at which its gate closes"),
    metric("rabbitmq_disk_space_available_bytes", lambda figures, at: or_none(at.node.broker.gates.disk.free),
           "Disk space available in bytes"),
    metric("rabbitmq_disk_space_available_limit_bytes", _free_limit,
           "Free disk space in bytes below which the gate of the disk closes"),
    metric("rabbitmq_alarms_memory_used_watermark", lambda figures, at: at.node.memory_alarm(),
           "is 1 if the gate of the node's memory is closed"),
    metric("rabbitmq_alarms_free_disk_space_watermark", lambda figures, at: at.node.disk_alarm(),
           "is 1 if a gate of the disk stops all persistent messages"),
    metric("rabbitmq_io_sync_ops_total", _syncs,
           "Total number of I/O sync operations: durable transactions of the store"),
    metric("rabbitmq_io_sync_time_seconds_total",
           lambda figures, at: None if figures.transactions is None else figures.transactions.sum_s,
           "Total I/O sync time, of whole transactions"),
    metric("rabbitmq_io_write_bytes_total",
           lambda figures, at: None if figures.transactions is None else figures.transaction_bytes,
           "Total number of I/O bytes written by transactions"),
    metric("rabbitmq_auth_attempts_total",
           lambda figures, at: int(at.node.audit.logins_accepted + at.node.audit.logins_refused),
           "Total number of authorization attempts"),
    metric("rabbitmq_auth_attempts_succeeded_total", lambda figures, at: int(at.node.audit.logins_accepted),
           "Total number of successful authentication attempts"),
    metric("rabbitmq_auth_attempts_failed_total", lambda figures, at: int(at.node.audit.logins_refused),
           "Total number of failed authentication attempts"),
    metric("penstock_logins_refused_total", lambda figures, at: int(at.node.audit.logins_refused),
           "Logins that were refused: wrong passwords, back-off, users without access"),
    metric("rabbitmq_connections_opened_total", lambda figures, at: figures.totals.churn["connection_created"],
           "Total number of connections opened"),
    metric("rabbitmq_connections_closed_total", lambda figures, at: figures.totals.churn["connection_closed"],
           "Total number of connections closed or terminated"),
    metric("rabbitmq_channels_opened_total", lambda figures, at: figures.totals.churn["channel_created"],
           "Total number of channels opened"),
    metric("rabbitmq_channels_closed_total", lambda figures, at: figures.totals.churn["channel_closed"],
           "Total number of channels closed"),
    metric("rabbitmq_queues_declared_total", lambda figures, at: figures.totals.churn["queue_declared"],
           "Total number of queues declared"),
    metric("rabbitmq_queues_created_total", lambda figures, at: figures.totals.churn["queue_created"],
           "Total number of queues created, or restored"),
    metric("rabbitmq_queues_deleted_total", lambda figures, at: figures.totals.churn["queue_deleted"],
           "Total number of queues deleted"),
    metric("rabbitmq_global_publishers", lambda figures, at: figures.totals.publishers,
           "Publishers currently connected: channels that published"),
    metric("rabbitmq_global_consumers", lambda figures, at: figures.totals.consumers, "Consumers currently connected"),
    metric("rabbitmq_queues", lambda figures, at: figures.totals.queues, "Queues available"),
    metric("rabbitmq_connections", lambda figures, at: figures.totals.connections, "Connections currently open"),
    metric("rabbitmq_channels", lambda figures, at: figures.totals.channels, "Channels currently open"),
    metric("rabbitmq_consumers", lambda figures, at: figures.totals.consumers, "Consumers currently connected"),
    metric("penstock_exchanges",
           lambda figures, at: sum([len(vhost.exchanges) for vhost in at.node.broker.vhosts.values()]),
           "Exchanges of all virtual hosts"),
    metric("penstock_bindings",
           lambda figures, at: sum([int(vhost.bindings.count) for vhost in at.node.broker.vhosts.values()]),
           "Bindings of all virtual hosts, without those of the default exchange"),
    metric("penstock_virtual_hosts", lambda figures, at: len(at.node.broker.vhosts), "Virtual hosts"),
    metric("penstock_unroutable_messages_total", lambda figures, at: int(at.node.broker.unroutable),
           "Messages that reached no queue: returned to their publisher or dropped"),
    metric("penstock_disk_used_bytes",
           lambda figures, at: None if at.node.broker.journal is None else int(at.node.broker.gates.disk.used),
           "Bytes of the store at the last measurement"),
    metric("penstock_disk_unwritten_bytes", _unwritten, "Bytes (charges) that the store has still to write"),
    metric("penstock_store_transaction_seconds", lambda figures, at: figures.transactions,
           "Seconds of a durable transaction of the store, with its wait for the disk (fsync)", kind=HISTOGRAM),
    metric("penstock_turn_seconds", lambda figures, at: figures.turns,
           "Seconds of a turn of the event loop, from its first input to the last output", kind=HISTOGRAM),
    metric("penstock_resume_latency_seconds", lambda figures, at: at.node.broker.turns.totals.resume_latency,
           "Seconds from the opening of a gate until a producer that it blocked goes on; 0 within one turn",
           kind=HISTOGRAM),
    metric("penstock_publish_hold_seconds", lambda figures, at: at.node.broker.turns.totals.holds,
           "Seconds for which publishes, commits and dead letters were held until their turn, without refused ones",
           kind=HISTOGRAM),
    metric("penstock_trace_spans_total", lambda figures, at: figures.spans[0],
           "Spans of waiting publishes that a collector of OpenTelemetry has taken"),
    metric("penstock_trace_spans_dropped_total", lambda figures, at: figures.spans[1],
           "Those that were dropped: it took none or was too slow, or too many came at once"),
)  # fmt: skip
"""Families of the node: RabbitMQ's names, if there is such a figure, and Penstock's. None has no sample."""

LONG_ENTRIES: Final = Family(
    "penstock_long_entries_total",
    "Entries of the event loop that took much longer than their units of work say, by kind (PST-2013)",
)
LONG_ENTRIES_S: Final = Family(
    "penstock_long_entries_seconds_total", "Seconds that they took longer than their units of work say"
)
JOBS: Final = Family("penstock_jobs", "Jobs (imports and other long work) that are not done, by state")
JOBS_ENDED: Final = Family("penstock_jobs_ended_total", "Jobs that have ended, by state: done, failed or cancelled")
ALARMS: Final = Family("penstock_alarm_raised", "Raised alarms: conditions that need a person, by kind")
HOOK: Final = Family(
    "penstock_alarm_hook_changes_total",
    "Changes of alarms for the web hook: sent, merged into a later change of the same alarm, or dropped",
)
CERTIFICATE: Final = Family(
    "penstock_tls_certificate_expiry_timestamp_seconds", "Time at which a certificate of TLS ends, since the epoch"
)
FIGURES: Final[tuple[Family, ...]] = (LONG_ENTRIES, LONG_ENTRIES_S, JOBS, JOBS_ENDED, ALARMS, HOOK, CERTIFICATE)
"""Figures with several samples each, in the order of the answer."""


def write_figures(out: Exposition, figures: NodeFigures) -> None:
    """Write the figures with several samples each: long entries, jobs, alarms, certificates and the process."""
    write(out, LONG_ENTRIES, [(label("kind", kind), count) for kind, count, _ in figures.long_entries])
    write(out, LONG_ENTRIES_S, [(label("kind", kind), seconds) for kind, _, seconds in figures.long_entries])
    write(out, JOBS, [(label("state", state), count) for state, count in figures.jobs.items()])
    write(out, JOBS_ENDED, [(label("state", state), count) for state, count in figures.jobs_ended.items()])
    write(out, ALARMS, [(label("kind", kind), count) for kind, count in figures.alarms.items()])
    write(out, HOOK, [(label("fate", fate), count) for fate, count in figures.hook.items()])
    ends = [(f"{label('file', file)},{label('name', name)}", end) for file, name, end in figures.certificates]
    write(out, CERTIFICATE, ends)
    for family, samples in figures.process:
        out.begin(family)
        for name, labels, value in samples:
            out.add(name, labels, value)


def write(out: Exposition, family: Family, samples: Sequence[tuple[str, object]]) -> None:
    """Write a family with its samples, which are labels and a value; None means no sample."""
    out.begin(family)
    for labels, value in samples:
        if value is not None:
            out.add(family.name, labels, value)


# Gates


class GateKind(NamedTuple):
    """All gates of a kind, with the number of closed ones."""

    flow: KindTotals
    closed: int


GATE_KINDS: Final[Table[GateKind]] = Table(
    metric("penstock_gates_closed", lambda kind, at: kind.closed, "Closed gates by kind"),
    metric("penstock_gate_crossings_total", lambda kind, at: int(kind.flow.crossings),
           "Times that gates closed, by kind"),
    metric("penstock_gate_closed_seconds_total", lambda kind, at: kind.flow.closed.seconds(at.now),
           "Seconds that gates were closed, by kind"),
    metric("penstock_blocked_producers", lambda kind, at: int(kind.flow.blocked.present),
           "Producers that a gate blocks now, by the kind of gate"),
    metric("penstock_producer_blocks_total", lambda kind, at: int(kind.flow.blocks),
           "Times that a gate blocked a producer, by kind"),
    metric("penstock_producers_blocked_seconds_total", lambda kind, at: kind.flow.blocked.seconds(at.now),
           "Seconds that producers were blocked, the sum over all, by kind"),
)  # fmt: skip


def gate_kinds(node: DescribedNode, totals: Totals) -> list[tuple[str, GateKind]]:
    """Return the kinds of gates, with their labels."""
    flow = node.broker.turns.totals
    return [(label("kind", kind), GateKind(flow.of(kind), totals.closed[kind])) for kind in KINDS]


class SharedGate(NamedTuple):
    """A gate other than of queues and rates, with the slack in its shared limit."""

    gate: Gate
    slack: int


def _depth(shared: SharedGate, at: Reading) -> object:
    """Return the depth below the gate without slack; None without a depth."""
    measure = shared.gate.measure()
    return None if measure is None else max(int(measure.bytes) - shared.slack, 0)


def _capacity(shared: SharedGate, at: Reading) -> object:
    measure = shared.gate.measure()
    return None if measure is None else or_infinity(measure.thresholds.capacity.bytes)


SHARED_GATES: Final[Table[SharedGate]] = Table(
    metric("penstock_gate_open", lambda shared, at: shared.gate.open,
           "Whether a shared gate is open (1): all but queues' and rates"),
    metric("penstock_gate_blocked_producers", lambda shared, at: len(shared.gate.blocked),
           "Producers that a shared gate blocks now"),
    metric("penstock_gate_depth_bytes", _depth,
           "Bytes (charges) below a shared gate: of the memory and of a virtual host exact"),
    metric("penstock_gate_capacity_bytes", _capacity, "Capacity of a shared gate; +Inf without a limit"),
)  # fmt: skip


def shared_gates(node: DescribedNode) -> list[tuple[str, Gate]]:
    """Return the gates of memory, disk, virtual hosts and addresses, and operator gates, with their virtual hosts."""
    gates = node.broker.gates
    named: list[tuple[str, Gate]] = []
    if gates.memory is not None:
        named.append(("", gates.memory.gate))
    if node.broker.journal is not None:
        for gate in gates.disk.gates():
            vhost = None if gate.owner is None else gate.owner.vhost_name()
            named.append((vhost or "", gate))
    named += [(name, limit.gate) for name, limit in gates.vhosts.items()]
    named += [(key.partition("\n")[0], depth.gate) for key, depth in gates.depths.items()]
    named += [(each.vhost, each.gate) for each in gates.operator_gates.values()]
    return named


def count_closed(node: DescribedNode, shared: list[tuple[str, Gate]], totals: Totals) -> None:
    """Count the closed gates other than those of queues."""
    for _, gate in shared:
        totals.closed[gate.kind] += 0 if gate.open else 1
    rates: list[RateGate] = [*node.broker.gates.user_rates.values(), *node.broker.gates.address_rates.values()]
    totals.closed["rate"] += sum([0 if rate.gate.open else 1 for rate in rates])


def labelled(vhost: str, gate: Gate, totals: Totals) -> tuple[str, SharedGate]:
    """Return a shared gate with its labels, and its slack as of the pass through the queues.

    Near the thresholds of its limit there is no slack.
    """
    limit = gate.owner
    slack = totals.slack.get(id(limit), 0) if isinstance(limit, SharedLimit) and not limit.exact else 0
    labels = ",".join((label("kind", key_of(gate)), label("vhost", vhost), label("gate", gate.name)))
    return labels, SharedGate(gate, slack)
