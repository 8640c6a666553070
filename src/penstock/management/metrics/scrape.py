"""A scrape: one answer of metrics, written in slices, so that ten thousand queues stop nobody.

Theory of operation. A family must be written as a whole, so the objects are collected first, and each family goes
through all of them. What is deleted meanwhile is left out from then on. A slice ends after `SAMPLES_A_SLICE` samples:
the caller sends its text and lets the broker work. Only the references and the labels of the objects are held in
between, and the number of objects is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from penstock.core.consume.session import Session
from penstock.core.gates.registry import Gates
from penstock.core.publish.session_counts import tally_of
from penstock.core.queue.queue import Queue
from penstock.core.routing.exchange_counters import ExchangeCounters
from penstock.management.metrics.client_families import CHANNEL_FAMILIES, CONNECTION_FAMILIES
from penstock.management.metrics.cursor_families import CURSOR_FAMILIES, CURSORS, CursorSample
from penstock.management.metrics.exposition import GAUGE, Exposition, Family, label
from penstock.management.metrics.message_families import (
    CHANNEL_COUNTS,
    EXCHANGE_COUNTS,
    EXCHANGES,
    QUEUE_COUNTS,
    write_messages,
)
from penstock.management.metrics.node_families import (
    NodeFigures,
    Totals,
    shared_gates,
    write_gates,
    write_identity,
    write_node,
    write_shared_gates,
    write_times,
)
from penstock.management.metrics.queue_families import FAMILIES, RABBITMQ
from penstock.protocols.common.connection import Connection

if TYPE_CHECKING:
    from penstock.management.node import Node

SAMPLES_A_SLICE: Final = 300
"""Samples of a slice: some tenths of a millisecond."""
QUEUES_A_SLICE: Final = 100
"""Queues summed up in a slice, in each family."""
CLIENTS_A_SLICE: Final = 50
SHARED_MOST: Final = 1000
"""Most shared gates: those of addresses and the operator's."""
GROUPS: Final = frozenset(
    [family.group for family in FAMILIES + QUEUE_COUNTS]
    + [family.group for family in CHANNEL_COUNTS]
    + [family.group for family in CONNECTION_FAMILIES]
    + [family.group for family in CHANNEL_FAMILIES]
    + [CURSORS, EXCHANGES]
)
"""Groups of families that `/metrics/detailed?family=` takes."""
OMITTED: Final = Family(
    "penstock_metrics_objects_omitted",
    GAUGE,
    "Objects that this answer leaves out, because metrics-objects-max is reached",
)


class Selection:
    """The objects and families of a scrape."""

    def __init__(
        self,
        objects_max: int,
        groups: frozenset[str] | None = None,
        vhosts: frozenset[str] | None = None,
        detailed: bool = False,
    ) -> None:
        self.objects_max = objects_max
        """Most objects of a kind."""
        self.groups = groups
        """Wanted groups of families; None: all."""
        self.vhosts = vhosts
        """Wanted virtual hosts; None: all."""
        self.detailed = detailed
        """True for RabbitMQ's prefix of `/metrics/detailed`, so that nothing is summed up twice."""

    def has(self, group: str) -> bool:
        """Tell whether a group of families is wanted."""
        return self.groups is None or group in self.groups

    def covers(self, vhost: str) -> bool:
        """Tell whether a virtual host is wanted."""
        return self.vhosts is None or vhost in self.vhosts

    def shown(self, family: Family) -> Family:
        """Return a family under the name of this answer."""
        if self.detailed and family.name.startswith("rabbitmq_"):
            return Family(family.name.replace("rabbitmq_", "rabbitmq_detailed_", 1), family.kind, family.help)
        return family


class Scrape:
    """Scrape of one node. Each iteration is a slice: its text, which may be empty."""

    def __init__(self, node: Node, figures: NodeFigures, openmetrics: bool) -> None:
        self._node = node
        self._figures = figures
        self._out = Exposition(openmetrics)
        self._samples_before: int = 0
        """Samples at the end of the last slice."""
        self._omitted: dict[str, int] = {}

    def _is_full(self) -> bool:
        return self._out.samples - self._samples_before >= SAMPLES_A_SLICE

    def _take(self) -> str:
        self._samples_before = self._out.samples
        return self._out.take()

    # The sums over all objects

    def aggregated(self) -> Iterator[str]:
        """Return the slices of `/metrics`."""
        out, node = self._out, self._node
        totals = Totals()
        write_identity(out, node, self._figures)
        yield self._take()
        for _ in self._sum_queues(totals):
            yield ""
        for _ in self._sum_clients(totals):
            yield ""
        for index, family in enumerate(RABBITMQ):
            out.single(family, totals.queue_sums[index])
        for index, connection_family in enumerate(CONNECTION_FAMILIES):
            out.single(connection_family, totals.connection_sums[index])
        for index, channel_family in enumerate(CHANNEL_FAMILIES):
            out.single(channel_family, totals.channel_sums[index])
        yield self._take()
        shared = shared_gates(node)
        for each in shared:
            if not each.gate.open:
                totals.closed[each.gate.kind] += 1
        self._count_rates(totals)
        write_messages(out, node)
        yield self._take()
        write_node(out, node, self._figures, totals)
        yield self._take()
        write_gates(out, node, totals)
        yield self._take()
        self._omit("gate", max(len(shared) - SHARED_MOST, 0))
        write_shared_gates(out, shared[:SHARED_MOST], totals)
        yield self._take()
        write_times(out, node, self._figures)
        yield self._end()

    def _sum_queues(self, totals: Totals) -> Iterator[None]:
        sums = [0] * len(RABBITMQ)
        totals.queue_sums = sums
        now = self._node.broker.now
        for vhost in list(self._node.broker.vhosts.values()):
            totals.queues += len(vhost.queues)
            for part in vhost.roll.parts(QUEUES_A_SLICE):
                for index, family in enumerate(RABBITMQ):
                    for queue in part:
                        value = family.value(queue, now)
                        if isinstance(value, int):
                            sums[index] += value
                totals.closed["queue"] += sum([1 for queue in part if not queue.gate.open])
                for queue in part:
                    slack = int(queue.membership.slack_bytes())
                    for pool in queue.membership.pools if slack else ():
                        totals.slack[id(pool)] = totals.slack.get(id(pool), 0) + slack
                yield

    def _sum_clients(self, totals: Totals) -> Iterator[None]:
        # Of this moment, as the list of connections: what ends meanwhile is still in the list.
        ended = self._node.stats.ended_traffic
        totals.connection_sums = [family.of_ended(ended) for family in CONNECTION_FAMILIES]
        totals.channel_sums = [0] * len(CHANNEL_FAMILIES)
        done = 0
        for connection in list(self._node.connections.values()):
            if connection.vhost is None:
                continue
            totals.connections += 1
            for index, family in enumerate(CONNECTION_FAMILIES):
                totals.connection_sums[index] += family.value(connection)
            done += 1
            for session in list(connection.engine.sessions()):
                totals.channels += 1
                totals.consumers += len(session.consumers)
                totals.publishers += 1 if tally_of(session).publish > 0 else 0
                for index, channel_family in enumerate(CHANNEL_FAMILIES):
                    totals.channel_sums[index] += channel_family.value(session)
                done += 1
            if done >= CLIENTS_A_SLICE:
                done = 0
                yield

    def _count_rates(self, totals: Totals) -> None:
        gates: Gates = self._node.broker.gates
        for rate in gates.user_rates.values():
            totals.closed["rate"] += 0 if rate.gate.open else 1
        for rate in gates.address_rates.values():
            totals.closed["rate"] += 0 if rate.gate.open else 1

    # Object by object

    def per_object(self, selection: Selection) -> Iterator[str]:
        """Return the slices of `/metrics/per-object` and `/metrics/detailed`."""
        write_identity(self._out, self._node, self._figures)
        yield from self._queues(selection)
        yield from self._exchanges(selection)
        yield from self._cursors(selection)
        yield from self._clients(selection)
        yield self._end()

    def _queues(self, selection: Selection) -> Iterator[str]:
        families = [family for family in FAMILIES + QUEUE_COUNTS if selection.has(family.group)]
        if not families:
            return
        queues: list[Queue] = []
        labels: list[str] = []
        left_out = 0
        for vhost in list(self._node.broker.vhosts.values()):
            if not selection.covers(vhost.name):
                continue
            head = label("vhost", vhost.name)
            for part in vhost.roll.parts(SAMPLES_A_SLICE):
                shown_ones = part[: selection.objects_max - len(queues)]
                left_out += len(part) - len(shown_ones)
                for queue in shown_ones:
                    queues.append(queue)
                    labels.append(f"{head},{label('queue', queue.name)}")
                yield self._take()
        self._omit("queue", left_out)
        out = self._out
        for family in families:
            shown = selection.shown(family)
            out.begin(shown)
            for start in range(0, len(queues), SAMPLES_A_SLICE):
                now = self._node.broker.now
                for index in range(start, min(start + SAMPLES_A_SLICE, len(queues))):
                    queue = queues[index]
                    if not queue.deleted:
                        value = family.value(queue, now)
                        if value is not None:
                            out.add(shown.name, labels[index], value)
                yield self._take()

    def _exchanges(self, selection: Selection) -> Iterator[str]:
        if not selection.has(EXCHANGES):
            return
        found: list[tuple[str, ExchangeCounters]] = []
        left_out = 0
        for vhost in list(self._node.broker.vhosts.values()):
            if not selection.covers(vhost.name):
                continue
            part = list(islice(vhost.exchanges.values(), selection.objects_max - len(found)))
            left_out += len(vhost.exchanges) - len(part)
            head = label("vhost", vhost.name)
            for start in range(0, len(part), SAMPLES_A_SLICE):
                for exchange in part[start : start + SAMPLES_A_SLICE]:
                    found.append((f"{head},{label('exchange', exchange.name)}", exchange.counters))
                yield self._take()
        self._omit("exchange", left_out)
        for family in EXCHANGE_COUNTS:
            shown = selection.shown(family)
            self._out.begin(shown)
            for labels, counters in found:
                self._out.add(shown.name, labels, family.value(counters))
                if self._is_full():
                    yield self._take()

    def _cursors(self, selection: Selection) -> Iterator[str]:
        if not selection.has(CURSORS):
            return
        samples: list[CursorSample] = []
        left_out = 0
        for vhost in list(self._node.broker.vhosts.values()):
            if not selection.covers(vhost.name):
                continue
            for cursor in list(vhost.cursors.values()):
                positions = list(cursor.positions.values())
                room = selection.objects_max - len(samples)
                left_out += max(len(positions) - room, 0)
                for position in positions[:room]:
                    samples.append(CursorSample(cursor, position, self._node))
                    if len(samples) % CLIENTS_A_SLICE == 0:
                        yield self._take()
        self._omit("cursor", left_out)
        for family in CURSOR_FAMILIES:
            self._out.begin(family)
            for sample in samples:
                value = family.value(sample)
                if value is not None:
                    self._out.add(family.name, sample.labels, value)
                if self._is_full():
                    yield self._take()

    def _clients(self, selection: Selection) -> Iterator[str]:
        connection_families = [family for family in CONNECTION_FAMILIES if selection.has(family.group)]
        channel_families = [family for family in CHANNEL_FAMILIES if selection.has(family.group)]
        counts = [family for family in CHANNEL_COUNTS if selection.has(family.group)]
        if not connection_families and not channel_families and not counts:
            return
        connections: list[tuple[str, Connection]] = []
        channels: list[tuple[str, Session]] = []
        left_out, channels_left_out, done = 0, 0, 0
        for connection in list(self._node.connections.values()):
            vhost = connection.vhost
            if vhost is None or not selection.covers(vhost.name):
                continue
            if len(connections) == selection.objects_max:
                left_out += 1
                continue
            head = f"{label('vhost', vhost.name)},{label('connection', connection.name())}"
            connections.append((head, connection))
            sessions = list(connection.engine.sessions())
            room = selection.objects_max - len(channels)
            channels_left_out += max(len(sessions) - room, 0)
            for session in sessions[:room]:
                channels.append((f"{label('vhost', vhost.name)},{label('channel', session.name)}", session))
            done += 1 + min(len(sessions), room)
            if done >= CLIENTS_A_SLICE:
                done = 0
                yield self._take()
        self._omit("connection", left_out)
        self._omit("channel", channels_left_out)
        for family in connection_families:
            shown = selection.shown(family)
            self._out.begin(shown)
            for labels, connection in connections:
                self._out.add(shown.name, labels, family.value(connection))
                if self._is_full():
                    yield self._take()
        for channel_family in channel_families:
            shown = selection.shown(channel_family)
            self._out.begin(shown)
            for labels, session in channels:
                self._out.add(shown.name, labels, channel_family.value(session))
                if self._is_full():
                    yield self._take()
        for tally_family in counts:
            shown = selection.shown(tally_family)
            self._out.begin(shown)
            for labels, session in channels:
                self._out.add(shown.name, labels, tally_family.value(tally_of(session)))
                if self._is_full():
                    yield self._take()

    def _omit(self, kind: str, count: int) -> None:
        self._omitted[kind] = count

    def _end(self) -> str:
        if self._omitted:
            self._out.begin(OMITTED)
            for kind, count in self._omitted.items():
                self._out.add(OMITTED.name, f'kind="{kind}"', count)
        self._out.end()
        return self._take()
