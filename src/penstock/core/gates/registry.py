"""Registry of all gates except the queues' own, and their assignment to roads.

A queue has the shared limits of its virtual host and of the node, and the operator gates for both. An address (an
exchange) has its depth, its rate and its operator gate. A connection has its own and its user's rates and operator
gates. When a gate is added or removed, the gate lists of all roads concerned are rebuilt, so that a publish only
iterates over a list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.gates.address_depth import NO_BOUND, AddressDepth
from penstock.core.gates.disk import Disk
from penstock.core.gates.metadata_memory import Metadata, NodeMemory, OtherMemory
from penstock.core.gates.operator import ADDRESS, CONNECTION, QUEUE, USER, VHOST, OperatorGate
from penstock.core.gates.rate_gate import RateGate, rated
from penstock.core.gates.topic_depths import AddressCount, KnownTopics, TopicDepths
from penstock.core.publish.connection_gates import ConnectionGates
from penstock.core.publish.context import PublishContext
from penstock.core.publish.producer import Producer
from penstock.core.queue.queue import Queue
from penstock.core.routing.topology import Topology
from penstock.core.settings.limits import DiskLimits, Limits
from penstock.core.settings.table import SettingsChange, SettingsTable
from penstock.errors import NotFound
from penstock.flow.gate import Gate
from penstock.flow.level import UNLIMITED, Level, Thresholds
from penstock.flow.series import Tally
from penstock.flow.shared_limit import SharedLimit
from penstock.flow.work import Steps
from penstock.settings.pools import TOPICS

MEMORY_PERCENT: Final = 40
"""Default share of the host's memory for messages, in percent: 40, as in RabbitMQ for many years."""
RESERVE_PERCENT: Final = 10
"""Percent of the memory limit that is reserved for queues below their guaranteed share, when others use all the
rest.
"""
ATTACH_WORK: Final = 5
"""Units of work to assign the gates of an address, or of a producer."""
USERS_COUNTED: Final = 1_000
"""Most users whose counts are remembered after the end of their connections."""


class Gates(NodeMemory):
    """All gates of one broker except the queues' own."""

    def __init__(self, broker: PublishContext, table: SettingsTable, topologies: Mapping[str, Topology]) -> None:
        self.broker = broker
        self.table = table
        self._topologies = topologies
        """The broker's virtual hosts, by name."""
        self.disk = Disk(broker.turns)
        """The disk gates; without a store they stay open."""
        self.memory = None
        self.other_memory = OtherMemory()
        """Amounts in `memory` other than messages in queues."""
        self.metadata = Metadata(self)
        self.vhosts: dict[str, SharedLimit] = {}
        """Limits of the queues of a virtual host, for those with a limit."""
        self.operator_gates: dict[tuple[str, str, str], OperatorGate] = {}
        """Operator gates by scope, virtual host and name."""
        self.depths: dict[str, AddressDepth] = {}
        """Depths of addresses that have or had a limit, by `_address`."""
        self.topics = TopicDepths(table, broker.turns, broker.pools.of(TOPICS))
        """Depths of routing keys."""
        self.address_rates: dict[str, RateGate] = {}
        self.user_rates: dict[str, RateGate] = {}
        self.connections: dict[ConnectionGates, None] = {}
        """Open connections, in the order of opening."""
        self.closed_counts: dict[str, Tally] = {}
        """Counts of closed connections by user; the first user is forgotten at `USERS_COUNTED`."""
        self._of_user: dict[str, int] = {}
        """Number of connections of each user."""
        self._lifted: list[OperatorGate] = []
        """Opened operator gates that may still have waiters."""

    # Settings

    def apply(self, plan: SettingsChange) -> Steps[None]:
        """Apply a change of settings, address by address and connection by connection."""
        work = self.broker.work
        if plan.broker is not None:
            self.set_memory_limit(plan.broker)
            self.set_disk_limit(plan.broker)
        for vhost, limits in plan.vhosts:
            self.set_vhost_limit(vhost, limits.thresholds)
            self.set_vhost_quota(vhost, limits.disk)
        uncounted: dict[Topology, None] = {}
        for vhost, exchange, _ in plan.addresses:
            if work.spend(ATTACH_WORK):
                yield
            yield from self.topics.renew(vhost, exchange, work, self.broker.now)
            if self.attach_address(vhost, exchange.name) or self.table.has_topics():
                uncounted[vhost] = None
        for vhost in uncounted:
            count = AddressCount(self.broker, self._bounded(vhost), KnownTopics(self.topics, vhost))
            yield from count.run(list(vhost.queues.values()))
        if USER in plan.scopes or CONNECTION in plan.scopes or "producer" in plan.scopes:
            for origin in list(self.connections):
                if work.spend(ATTACH_WORK * (1 + len(origin.producers))):
                    yield
                if origin in self.connections:
                    self.attach_connection(origin)

    def set_memory_limit(self, limits: Limits) -> None:
        """Limit the memory of all queues by the settings, or by default to a share of the host's memory."""
        thresholds = limits.thresholds
        machine = self.table.machine_bytes
        if thresholds is None and machine > 0:
            capacity = machine * MEMORY_PERCENT // 100
            thresholds = Thresholds(
                Level(UNLIMITED, capacity), Level(UNLIMITED, capacity * 8 // 10), Level(UNLIMITED, capacity * 7 // 10)
            )
        if thresholds is None:
            self.set_memory_capacity(None, 0)
            return
        reserve = int(thresholds.capacity.bytes) * RESERVE_PERCENT // 100
        most = thresholds.capacity.bytes - reserve
        stop, resume = min(thresholds.stop.bytes, most), min(thresholds.resume.bytes, most)
        self.set_memory_capacity(
            Thresholds(Level(UNLIMITED, most), Level(UNLIMITED, stop), Level(UNLIMITED, resume)), reserve
        )

    # The disk

    def set_disk_limit(self, limits: Limits) -> None:
        """Apply the broker's disk limits."""
        self.disk.limit(limits.disk, self.broker.now)

    def set_vhost_quota(self, vhost: Topology, limits: DiskLimits | None) -> None:
        """Apply a virtual host's disk quota; None if it was deleted."""
        self.disk.limit_vhost(vhost.name, limits, self.broker.now)

    def disk_fails(self, reason: str) -> None:
        """Handle a failed write of the store; it also blocks producers whose confirms wait for the disk."""
        disk = self.disk
        disk.fails(reason, self.broker.now)
        self.broker.apply_gate_transitions()  # The closing is emitted before the blocks that it causes.
        for origin in self.connections:
            for producer in origin.producers:
                if producer.unflushed:
                    producer.mark_withheld(disk.fault.gate)

    def disk_works(self) -> None:
        """Handle a successful write of the store."""
        self.disk.works(self.broker.now)

    # Shared limits

    def set_memory_capacity(self, thresholds: Thresholds | None, reserve: int) -> None:
        """Limit the bytes of all queues; None means no limit. `reserve` bytes beyond the limit are for guaranteed
        shares.
        """
        now = self.broker.now
        if thresholds is not None and self.memory is not None:
            self.memory.reserve = reserve
            self.memory.set_thresholds(thresholds, now)
            return
        gone = self.memory
        self.memory = None
        if thresholds is not None:
            self.memory = SharedLimit("memory", "of the node", thresholds, self.broker.turns)
            self.memory.reserve = reserve
            self.memory.count(self.other_memory, 0, self.other_memory.bytes, False, now)
        for vhost in self._topologies.values():
            self._attach_queues(vhost)
        if gone is not None:
            _open_for_good(gone.gate, self.broker)

    @override
    def count_other_memory(self, by: i64) -> None:
        self.other_memory.count(self.memory, by, self.broker.now)

    def set_vhost_limit(self, vhost: Topology, thresholds: Thresholds | None) -> None:
        """Limit the contents of a virtual host's queues; None means no limit."""
        pool = self.vhosts.get(vhost.name)
        if thresholds is not None and pool is not None:
            pool.set_thresholds(thresholds, self.broker.now)
            return
        if thresholds is None:
            self.vhosts.pop(vhost.name, None)
        else:
            self.vhosts[vhost.name] = SharedLimit("vhost", vhost.name, thresholds, self.broker.turns)
        self._attach_queues(vhost)
        if pool is not None and thresholds is None:
            _open_for_good(pool.gate, self.broker)

    # Operator gates

    def block(self, scope: str, vhost: str, name: str, reason: str) -> OperatorGate:
        """Close the operator gate of an object; if the gate is closed already, only the reason changes.

        Raises ResourceError (506) as `Journal.check_writable` does.
        """
        if self.broker.journal is not None:
            self.broker.journal.check_writable()
        key = (scope, vhost, name)
        gate = self.operator_gates.get(key)
        if gate is None:
            gate = OperatorGate(scope, vhost, name, reason, self.broker.turns)
            self.operator_gates[key] = gate
            self._attach(gate)
        gate.reason = reason
        gate.gate.close(0, 0, self.broker.now)
        if gate.lasts() and self.broker.journal is not None:
            self.broker.journal.change(gate)
        return gate

    def unblock(self, scope: str, vhost: str, name: str) -> OperatorGate:
        """Open an operator gate. Raises NotFound (404) if the gate is not closed."""
        gate = self.operator_gates.get((scope, vhost, name))
        if gate is None or gate.gate.open:
            raise NotFound(f"{scope} '{name}' is not blocked by the operator; nothing to unblock")
        gate.gate.reopen(0, 0, self.broker.now)
        gate.update_gate(self.broker.now)
        self._lifted.append(gate)
        if gate.lasts() and self.broker.journal is not None:
            self.broker.journal.forget(gate)
        return gate

    def unblock_vhost(self, vhost: str) -> None:
        """Open the operator gates of a virtual host that is being deleted."""
        for gate in list(self.operator_gates.values()):
            if gate.vhost == vhost and not gate.gate.open:
                self.unblock(gate.scope, vhost, gate.name)

    def clear_lifted(self) -> None:
        """Remove opened operator gates without waiters from the roads."""
        if not self._lifted:
            return
        still: list[OperatorGate] = []
        for gate in self._lifted:
            if not gate.gate.open:
                continue  # The gate was closed again.
            if gate.idle():
                self.operator_gates.pop((gate.scope, gate.vhost, gate.name), None)
                self._attach(gate)
                self.broker.turns.ended.append(gate)
            else:
                still.append(gate)
        self._lifted = still

    # Assignment to roads

    def attach_queue(self, queue: Queue) -> None:
        """Assign the gates of a queue."""
        gates: list[Gate] = []
        pools: list[SharedLimit] = []
        for scope, name in ((QUEUE, queue.name), (VHOST, queue.vhost)):
            held = self.operator_gates.get((scope, queue.vhost, name))
            if held is not None:
                gates.append(held.gate)
        vhost = self.vhosts.get(queue.vhost)
        if vhost is not None:
            pools.append(vhost)
        if self.memory is not None:
            pools.append(self.memory)
        gates += [pool.gate for pool in pools]
        queue.set_gates(gates, pools, self.broker.now)

    def attach_address(self, vhost: Topology, name: str) -> bool:
        """Assign the gates of an address: an exchange of a virtual host.

        Returns True if a depth limit is new: the caller then counts the messages that are already in queues.
        """
        exchange = vhost.exchanges.get(name)
        if exchange is None:
            return False
        gates: list[Gate] = []
        held = self.operator_gates.get((ADDRESS, vhost.name, name))
        if held is not None:
            gates.append(held.gate)
        limits = self.table.limits(ADDRESS, name, None, vhost.name)
        key = _address(vhost, name)
        rate = self._rate(self.address_rates.pop(key, None), f"address {name}", limits)
        if rate is not None:
            self.address_rates[key] = rate
            gates.append(rate.gate)
        before = self.depths.get(key)
        uncounted = limits.thresholds is not None and (before is None or before.thresholds is NO_BOUND)
        depth = self._depth(key, name, limits.thresholds)
        if depth is not None:
            gates.append(depth.gate)
        exchange.set_gates(gates)
        vhost.epoch += 1
        return uncounted

    def address_depths(self) -> list[tuple[str, str, AddressDepth]]:
        """Return the depths of addresses, with virtual host and exchange."""
        found: list[tuple[str, str, AddressDepth]] = []
        for key, depth in self.depths.items():
            vhost, _, name = key.partition("\n")
            found.append((vhost, name, depth))
        return found

    def _bounded(self, vhost: Topology) -> dict[str, AddressDepth]:
        """Return the depths of a virtual host's addresses with a bound, by exchange."""
        depths: dict[str, AddressDepth] = {}
        for name in vhost.exchanges:
            depth = self.depths.get(_address(vhost, name))
            if depth is not None and depth.thresholds is not NO_BOUND:
                depths[name] = depth
        return depths

    def forget_address(self, vhost: Topology, name: str) -> None:
        """Open the gates of a deleted exchange: waiters check the rest of their road."""
        self.topics.forget(vhost, name, self.broker.now)
        key = _address(vhost, name)
        self._rate(self.address_rates.pop(key, None), "", Limits())
        depth = self.depths.pop(key, None)
        if depth is not None:
            _open_for_good(depth.gate, self.broker)

    def attach_connection(self, origin: ConnectionGates) -> None:
        """Assign the gates of a connection and of its producers, and their share of the turns."""
        table = self.table
        gates: list[Gate] = []
        for scope, name in ((CONNECTION, origin.name), (USER, origin.user)):
            held = self.operator_gates.get((scope, "", name))
            if held is not None:
                gates.append(held.gate)
        of_user = table.limits(USER, origin.user)
        rate = self._rate(self.user_rates.pop(origin.user, None), f"user {origin.user}", of_user)
        if rate is not None:
            self.user_rates[origin.user] = rate
            gates.append(rate.gate)
        limits = table.limits(CONNECTION, origin.user, origin.given)
        origin.rate = self._rate(origin.rate, f"connection {origin.name}", limits)
        if origin.rate is not None:
            gates.append(origin.rate.gate)
        origin.gates = gates
        origin.weight = of_user.weight
        for producer in origin.producers:
            self._attach_producer(origin, producer)

    def add_producer(self, origin: ConnectionGates, producer: Producer) -> None:
        """Add a producer to a connection."""
        origin.producers.append(producer)
        self._attach_producer(origin, producer)

    def _attach_producer(self, origin: ConnectionGates, producer: Producer) -> None:
        limits = self.table.limits("producer", origin.user).lowered(origin.rates).lowered(producer.rates)
        producer.rate = self._rate(producer.rate, f"producer {producer.name}", limits)
        producer.weight = origin.weight
        producer.set_gates(origin.gates if producer.rate is None else [*origin.gates, producer.rate.gate])

    def _rate(self, before: RateGate | None, name: str, limits: Limits) -> RateGate | None:
        """Return the rate gate for these limits: the present one, a new one, or None."""
        if not rated(limits):
            if before is not None:
                before.drop()
                _open_for_good(before.gate, self.broker)
            return None
        rate = RateGate(name, self.broker.turns, self.broker.timers) if before is None else before
        rate.limit(limits)
        rate.update_gate(self.broker.now)
        return rate

    def _depth(self, key: str, name: str, thresholds: Thresholds | None) -> AddressDepth | None:
        depth = self.depths.get(key)
        if thresholds is None:
            if depth is not None:
                depth.set_thresholds(NO_BOUND, self.broker.now)
            return None
        if depth is None:
            depth = AddressDepth(name, thresholds, self.broker.turns)
            self.depths[key] = depth
        depth.set_thresholds(thresholds, self.broker.now)
        return depth

    def add_connection(self, origin: ConnectionGates) -> None:
        """Add an opened connection."""
        self.connections[origin] = None
        self._of_user[origin.user] = self._of_user.get(origin.user, 0) + 1
        self.attach_connection(origin)

    def counts_of_user(self, user: str) -> Tally:
        """Return the counts of a user's closed connections."""
        tally = self.closed_counts.get(user)
        if tally is None:
            while len(self.closed_counts) >= USERS_COUNTED:
                del self.closed_counts[next(iter(self.closed_counts))]
            tally = Tally()
            self.closed_counts[user] = tally
        return tally

    def remove_connection(self, origin: ConnectionGates) -> None:
        """Remove a closed connection."""
        if origin not in self.connections:
            return
        del self.connections[origin]
        left = self._of_user.pop(origin.user) - 1
        if origin.rate is not None:
            origin.rate.drop()
        if left:
            self._of_user[origin.user] = left
        else:
            rate = self.user_rates.pop(origin.user, None)
            if rate is not None:
                rate.drop()

    def _attach_queues(self, vhost: Topology) -> None:
        for queue in vhost.queues.values():
            self.attach_queue(queue)

    def _attach(self, gate: OperatorGate) -> None:
        """Assign an operator gate to all affected roads."""
        vhost = self._topologies.get(gate.vhost)
        if gate.scope == VHOST and vhost is not None:
            self._attach_queues(vhost)
        elif gate.scope == QUEUE and vhost is not None and gate.name in vhost.queues:
            self.attach_queue(vhost.queues[gate.name])
        elif gate.scope == ADDRESS and vhost is not None:
            self.attach_address(vhost, gate.name)
        else:
            for origin in self.connections:
                if (origin.name if gate.scope == CONNECTION else origin.user) == gate.name:
                    self.attach_connection(origin)


def _address(vhost: Topology, name: str) -> str:
    return f"{vhost.name}\n{name}"


def _open_for_good(gate: Gate, broker: PublishContext) -> None:
    """Remove a gate from the roads: waiters check the rest of their road."""
    gate.owner = None
    gate.reopen(0, 0, broker.now)
    if gate.in_line():
        broker.turns.schedule(gate)
