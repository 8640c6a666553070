"""The gates besides the queues' own, and on whose road each of them stands.

A queue has its virtual host's and the node's pools, and the operator's gates for it and its host; an address (an
exchange) has its depth, its rate and the operator's gate; an origin (a connection) has its own and its user's rates
and operator's gates. Whenever one comes or goes, the lists of those whose road changes are made anew: publishing only
walks over a list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.operator import ADDRESS, CONNECTION, QUEUE, USER, VHOST, OperatorGate
from penstock.core.origin import Origin
from penstock.core.queue import Queue
from penstock.errors import NotFound
from penstock.flow.gate import Gate
from penstock.flow.level import Thresholds
from penstock.flow.pool import Pool

if TYPE_CHECKING:
    from penstock.core.broker import Broker
    from penstock.core.vhost import VirtualHost


class Gates:
    """All of one broker."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.memory: Pool | None = None
        """What all queues hold in memory; None where that is not bounded."""
        self.vhosts: dict[str, Pool] = {}
        """What the queues of a virtual host hold, for those where that is bounded."""
        self.held: dict[tuple[str, str, str], OperatorGate] = {}
        """By scope, virtual host and name."""
        self.origins: list[Origin] = []
        self._lifted: list[OperatorGate] = []
        """Open again, and somebody may still wait there."""

    # Pools

    def bound_memory(self, thresholds: Thresholds | None, reserve: int) -> None:
        """Bound what all queues hold, in bytes; None: no bound. `reserve` is what sheltered queues may fill beyond."""
        now = self.broker.now
        if thresholds is not None and self.memory is not None:
            self.memory.reserve = reserve
            self.memory.set_thresholds(thresholds, now)
            return
        gone = self.memory
        self.memory = None
        if thresholds is not None:
            self.memory = Pool("memory", "of the node", thresholds, self.broker.turns)
            self.memory.reserve = reserve
        for vhost in self.broker.vhosts.values():
            self._place_queues(vhost)
        if gone is not None:
            _open_for_good(gone.gate, self.broker)

    def bound_vhost(self, vhost: VirtualHost, thresholds: Thresholds | None) -> None:
        """Bound what the queues of a virtual host hold together; None: no bound."""
        pool = self.vhosts.get(vhost.name)
        if thresholds is not None and pool is not None:
            pool.set_thresholds(thresholds, self.broker.now)
            return
        if thresholds is None:
            self.vhosts.pop(vhost.name, None)
        else:
            self.vhosts[vhost.name] = Pool("vhost", vhost.name, thresholds, self.broker.turns)
        self._place_queues(vhost)
        if pool is not None:
            _open_for_good(pool.gate, self.broker)

    # The operator's

    def block(self, scope: str, vhost: str, name: str, reason: str) -> OperatorGate:
        """Close the operator's gate for something; doing so again changes only the reason."""
        key = (scope, vhost, name)
        gate = self.held.get(key)
        if gate is None:
            gate = OperatorGate(scope, vhost, name, reason, self.broker.turns)
            self.held[key] = gate
            self._place(gate)
        gate.reason = reason
        gate.gate.close(0, 0, self.broker.now)
        return gate

    def unblock(self, scope: str, vhost: str, name: str) -> OperatorGate:
        """Open it again. Raises NotFound (404) where it is not closed."""
        gate = self.held.get((scope, vhost, name))
        if gate is None or gate.gate.open:
            raise NotFound(f"{scope} '{name}' is not blocked by the operator; nothing to unblock")
        gate.gate.reopen(0, 0, self.broker.now)
        gate.review(self.broker.now)
        self._lifted.append(gate)
        return gate

    def clear_lifted(self) -> None:
        """Take those off the roads that are open again and have nobody waiting."""
        if not self._lifted:
            return
        still: list[OperatorGate] = []
        for gate in self._lifted:
            if not gate.gate.open:
                continue  # Closed again.
            if gate.idle():
                self.held.pop((gate.scope, gate.vhost, gate.name), None)
                self._place(gate)
            else:
                still.append(gate)
        self._lifted = still

    # Who stands on whose road

    def place_queue(self, queue: Queue) -> None:
        """Find the gates of a queue."""
        gates: list[Gate] = []
        pools: list[Pool] = []
        for scope, name in ((QUEUE, queue.name), (VHOST, queue.vhost)):
            held = self.held.get((scope, queue.vhost, name))
            if held is not None:
                gates.append(held.gate)
        vhost = self.vhosts.get(queue.vhost)
        if vhost is not None:
            pools.append(vhost)
        if self.memory is not None:
            pools.append(self.memory)
        gates += [pool.gate for pool in pools]
        queue.stand_by(gates, pools, self.broker.now)

    def place_address(self, vhost: VirtualHost, name: str) -> None:
        """Find the gates of an address: an exchange of a virtual host."""
        exchange = vhost.exchanges.get(name)
        if exchange is None:
            return
        gates: list[Gate] = []
        held = self.held.get((ADDRESS, vhost.name, name))
        if held is not None:
            gates.append(held.gate)
        exchange.gates = gates
        vhost.epoch += 1

    def place_origin(self, origin: Origin) -> None:
        """Find the gates of a connection."""
        gates: list[Gate] = []
        for scope, name in ((CONNECTION, origin.name), (USER, origin.user)):
            held = self.held.get((scope, "", name))
            if held is not None:
                gates.append(held.gate)
        origin.gates = gates
        for producer in origin.producers:
            producer.stand_by(list(gates))

    def enter(self, origin: Origin) -> None:
        """A connection came."""
        self.origins.append(origin)
        self.place_origin(origin)

    def leave(self, origin: Origin) -> None:
        """A connection went."""
        if origin in self.origins:
            self.origins.remove(origin)

    def _place_queues(self, vhost: VirtualHost) -> None:
        for queue in vhost.queues.values():
            self.place_queue(queue)

    def _place(self, gate: OperatorGate) -> None:
        """Find the gates of everybody whom an operator's gate concerns."""
        vhost = self.broker.vhosts.get(gate.vhost)
        if gate.scope == VHOST and vhost is not None:
            self._place_queues(vhost)
        elif gate.scope == QUEUE and vhost is not None and gate.name in vhost.queues:
            self.place_queue(vhost.queues[gate.name])
        elif gate.scope == ADDRESS and vhost is not None:
            self.place_address(vhost, gate.name)
        else:
            for origin in self.origins:
                if (origin.name if gate.scope == CONNECTION else origin.user) == gate.name:
                    self.place_origin(origin)


def _open_for_good(gate: Gate, broker: Broker) -> None:
    """A gate is taken off the roads: whoever waits at it looks at the rest of its road."""
    gate.owner = None
    gate.reopen(0, 0, broker.now)
    if gate.waiters:
        broker.turns.enlist(gate)
