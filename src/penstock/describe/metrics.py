"""A scrape: one answer of metrics, written in slices, so that ten thousand queues delay no client.

Theory of operation. A family must be written as a whole, so the objects are collected first, and each family goes
through all of them. Objects deleted meanwhile are left out from then on. A slice ends after `SAMPLES_A_SLICE` samples:
the caller sends its text and yields to the broker. Only the references and the labels of the objects are stored in
between, and the number of objects is bounded.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from penstock.connections.connection import Connection
from penstock.core.consume.session import Session
from penstock.core.publish.session_counts import tally_of
from penstock.core.queue.cursor_state import lag_of
from penstock.core.queue.queue import Queue
from penstock.core.routing.exchange import Exchange
from penstock.core.vhost import VirtualHost
from penstock.describe.bridges import (
    BRIDGE,
    LABELLED_MOST,
    LINKS,
    SHOVELS,
    STATES,
    labelled_bridges,
    labelled_links,
    labelled_shovels,
    labelled_states,
)
from penstock.describe.exposition import Exposition, Family, label
from penstock.describe.list_kinds import name_in_log
from penstock.describe.node import (
    CHANNEL_COUNTS,
    FIGURES,
    GATE_KINDS,
    IDENTITIES,
    NODE,
    SHARED_GATES,
    NodeFigures,
    count_closed,
    gate_kinds,
    labelled,
    shared_gates,
    write,
    write_figures,
    write_identity,
)
from penstock.describe.pools import HOLDER_FIGURES, POOL_FIGURES, labelled_holders, labelled_pools
from penstock.describe.queue import POSITION, QUEUE, SUMMED, Progress
from penstock.describe.reply_queues import REPLY_QUEUES, ReplyTotals
from penstock.describe.session import CONNECTION, OCTETS, SESSION
from penstock.describe.table import DescribedNode, Field, LabelledValue, Reading, reading
from penstock.describe.vhost import EXCHANGE, churn

SAMPLES_A_SLICE: Final = 300
"""Samples of a slice: some tenths of a millisecond."""
QUEUES_A_SLICE: Final = 100
"""Queues summed up in a slice, in each family."""
CLIENTS_A_SLICE: Final = 50
SHARED_MOST: Final = 1000
"""Most shared gates: of addresses and of operators."""
OMITTED: Final = Family(
    "penstock_metrics_objects_omitted",
    "Objects that this answer leaves out, because metrics-objects-max is reached",
)
T = TypeVar("T")
Parts = Iterator[tuple[str, Sequence[T]]]
"""Objects some at a time, with their common labels."""
Labelled = list[tuple[str, T]]
"""Objects with all their labels."""
CLIENTS: Final = ("connection", "channel")
CHANNEL_FAMILIES: Final = SESSION.families + CHANNEL_COUNTS
OF_OBJECTS: Final[tuple[Sequence[Family], ...]] = (
    *(QUEUE.families, EXCHANGE.families, POSITION.families, CONNECTION.families, CHANNEL_FAMILIES),
)
"""Families of objects in the order of the answers."""
GROUPS: Final = frozenset([family.group for families in OF_OBJECTS for family in families])
"""Groups of families for `/metrics/detailed?family=`."""
AGGREGATED: Final[tuple[Sequence[Family], ...]] = (
    *(IDENTITIES, SUMMED, CONNECTION.families, SESSION.families, NODE.families, FIGURES),
    *(GATE_KINDS.families, REPLY_QUEUES.families, POOL_FIGURES.families, HOLDER_FIGURES.families),
    *(SHOVELS.families, LINKS.families, STATES.families, BRIDGE.families, SHARED_GATES.families, [OMITTED]),
)
"""Families of `/metrics` in the order of the answer; those of the process follow `FIGURES`."""
PER_OBJECT: Final[tuple[Sequence[Family], ...]] = (IDENTITIES, *OF_OBJECTS, [OMITTED])
"""Families of `/metrics/per-object` and `/metrics/detailed` in the order of the answers."""


class Selection(NamedTuple):
    """The objects and families of a scrape."""

    objects_max: int
    """Most objects of a kind."""
    groups: frozenset[str] | None = None
    """Requested groups of families; None for all."""
    vhosts: frozenset[str] | None = None
    """Requested virtual hosts; None for all."""
    detailed: bool = False
    """True for RabbitMQ's prefix of `/metrics/detailed`, so that no sum counts twice."""

    def of(self, families: Sequence[Field[T]]) -> list[Field[T]]:
        """Return the families of the requested groups."""
        return [family for family in families if self.groups is None or family.group in self.groups]

    def has_clients(self) -> bool:
        """Return whether a family of connections or channels is requested.

        The answer then counts the omitted ones.
        """
        return bool(self.of(CONNECTION.families) or self.of(CHANNEL_FAMILIES))

    def vhosts_of(self, node: DescribedNode) -> list[VirtualHost]:
        """Return the requested virtual hosts."""
        return [vhost for vhost in node.broker.vhosts.values() if self.covers(vhost.name)]

    def covers(self, vhost: str) -> bool:
        """Return whether a virtual host is requested."""
        return self.vhosts is None or vhost in self.vhosts

    def shown(self, family: Family) -> Family:
        """Return a family under the name of this answer."""
        if self.detailed and family.name.startswith("rabbitmq_"):
            name = family.name.replace("rabbitmq_", "rabbitmq_detailed_", 1)
            return Family(name, family.help, family.kind)
        return family


class Scrape:
    """Scrape of one node. Each iteration is a slice: its text, which may be empty."""

    def __init__(self, node: DescribedNode, figures: NodeFigures, openmetrics: bool) -> None:
        self._node = node
        self._figures = figures
        self._out = Exposition(openmetrics)
        self._omitted: dict[str, int] = {}
        self._replies = ReplyTotals()

    # The sums over all objects

    def aggregated(self) -> Iterator[str]:
        """Return the slices of `/metrics`."""
        out, node, figures = self._out, self._node, self._figures
        totals = figures.totals
        write_identity(out, node, figures)
        yield out.take()
        for _ in self._sum_queues():
            yield ""
        for _ in self._sum_reply_queues():
            yield ""
        for _ in self._sum_clients():
            yield ""
        for families in (SUMMED, CONNECTION.families, SESSION.families):
            for family in families:
                out.single(family, totals.sums.get(family.name, 0))
        yield out.take()
        totals.churn = churn(node, figures.connections_opened, totals.channels, totals.queues)
        at = reading(node)
        for figure in NODE.families:
            value = figure.value(figures, at)
            if value is not None:
                out.single(figure, value)
        write_figures(out, figures)
        yield out.take()
        shared = shared_gates(node)
        count_closed(node, shared, totals)
        self._write_all(GATE_KINDS.families, gate_kinds(node, totals))
        yield out.take()
        self._write_all(REPLY_QUEUES.families, [("", self._replies)])
        self._write_all(POOL_FIGURES.families, labelled_pools(node.broker))
        self._write_all(HOLDER_FIGURES.families, labelled_holders(node.broker))
        self._write_bridges()
        self._omitted["gate"] = max(len(shared) - SHARED_MOST, 0)
        shown = [labelled(vhost, gate, totals) for vhost, gate in shared[:SHARED_MOST]]
        self._write_all(SHARED_GATES.families, shown)
        yield self._end()

    def _write_bridges(self) -> None:
        rows = self._node.bridge_rows()
        if rows:
            self._write_all(SHOVELS.families, labelled_shovels(rows))
            self._write_all(LINKS.families, labelled_links(rows))
            self._write_all(STATES.families, labelled_states(rows))
            self._write_all(BRIDGE.families, labelled_bridges(rows))
            self._omitted["bridge"] = max(len(rows) - LABELLED_MOST, 0)

    def _write_all(self, families: Sequence[Field[T]], subjects: Labelled[T]) -> None:
        at = reading(self._node)
        for family in families:
            write(self._out, family, [(labels, family.value(subject, at)) for labels, subject in subjects])

    def _add(self, families: Sequence[Field[T]], subjects: Sequence[T], at: Reading) -> None:
        """Add the values of objects to the sums."""
        sums = self._figures.totals.sums
        for family in families:
            total = 0
            for subject in subjects:
                value = family.value(subject, at)
                if isinstance(value, int):
                    total += value
            sums[family.name] = sums.get(family.name, 0) + total

    def _sum_queues(self) -> Iterator[None]:
        totals = self._figures.totals
        for vhost in list(self._node.broker.vhosts.values()):
            totals.queues += len(vhost.queues)
            for part in vhost.roll.parts(QUEUES_A_SLICE):
                self._add(SUMMED, part, reading(self._node))
                totals.closed["queue"] += sum([1 for queue in part if not queue.gate.open])
                for queue in part:
                    slack = int(queue.membership.slack_bytes())
                    for pool in queue.membership.pools if slack else ():
                        totals.slack[id(pool)] = totals.slack.get(id(pool), 0) + slack
                yield

    def _sum_reply_queues(self) -> Iterator[None]:
        done = 0
        for vhost in list(self._node.broker.vhosts.values()):
            for queue in list(vhost.replies.values()):
                if not queue.deleted:
                    self._replies.add(queue)
                done += 1
                if done % QUEUES_A_SLICE == 0:
                    yield

    def _sum_clients(self) -> Iterator[None]:
        # At this moment, as in the list of connections: a connection that ends meanwhile is still in the list.
        totals, ended = self._figures.totals, self._node.stats.ended_traffic
        for name, count, _, _ in OCTETS:
            totals.sums[name] = count(ended)
        done = 0
        for connection in list(self._node.connections.values()):
            if connection.vhost is None:
                continue
            at = reading(self._node)
            sessions = list(connection.engine.sessions())
            self._add(CONNECTION.families, [connection], at)
            self._add(SESSION.families, sessions, at)
            totals.connections += 1
            totals.channels += len(sessions)
            for session in sessions:
                totals.consumers += len(session.consumers)
                totals.publishers += 1 if tally_of(session).publish > 0 else 0
            done += 1 + len(sessions)
            if done >= CLIENTS_A_SLICE:
                done = 0
                yield

    # Object by object

    def per_object(self, selection: Selection) -> Iterator[str]:
        """Return the slices of `/metrics/per-object` and `/metrics/detailed`."""
        write_identity(self._out, self._node, self._figures)
        vhosts, connections = selection.vhosts_of(self._node), _connections(self._node, selection)
        positions = _positions(vhosts, self._node, selection.objects_max)
        yield from self._of_kind("queue", QUEUE.families, _queues(vhosts), selection)
        yield from self._of_kind("exchange", EXCHANGE.families, _exchanges(vhosts), selection)
        yield from self._of_kind("cursor", POSITION.families, positions, selection)
        yield from self._of_kind("connection", CONNECTION.families, connections, selection)
        yield from self._of_kind("channel", CHANNEL_FAMILIES, _channels(self._node, selection), selection)
        yield self._end()

    def _of_kind(self, kind: str, families: Sequence[Field[T]], parts: Parts[T], selection: Selection) -> Iterator[str]:
        """Collect the objects of a kind, and write their families."""
        wanted = selection.of(families)
        if not wanted and not (kind in CLIENTS and selection.has_clients()):
            return
        subjects = yield from self._collected(kind, parts, selection.objects_max)
        at, done = reading(self._node), 0
        for family in wanted:
            shown = selection.shown(family)
            self._out.begin(shown)
            for start in range(0, len(subjects), SAMPLES_A_SLICE):
                part = subjects[start : start + SAMPLES_A_SLICE]
                if done + len(part) > SAMPLES_A_SLICE:
                    yield self._out.take()
                    at, done = reading(self._node), 0
                done += len(part)
                for labels, subject in part:
                    value = None if isinstance(subject, Queue) and subject.deleted else family.value(subject, at)
                    if isinstance(value, LabelledValue):
                        self._out.add(shown.name, f"{labels},{value.labels}", value.value)
                    elif value is not None:
                        self._out.add(shown.name, labels, value)

    def _collected(self, kind: str, parts: Parts[T], most: int) -> Generator[str, None, Labelled[T]]:
        """Collect the first objects with their labels; other objects are counted."""
        samples: Labelled[T] = []
        left_out, seen = 0, 0
        for head, part in parts:
            shown = part[: most - len(samples)]
            left_out += len(part) - len(shown)
            for subject in shown:
                samples.append((f"{head},{_label(kind, subject)}", subject))
            seen += 1 + len(shown)
            if seen >= CLIENTS_A_SLICE:
                seen = 0
                yield self._out.take()
        self._omitted[kind] = left_out
        return samples

    def _end(self) -> str:
        if self._omitted:
            write(self._out, OMITTED, [(f'kind="{kind}"', count) for kind, count in self._omitted.items()])
        self._out.end()
        return self._out.take()


def _label(kind: str, subject: object) -> str:
    if isinstance(subject, Progress):
        return f"{label('cursor', subject.cursor.name)},{label('queue', subject.queue.name)}"
    return label(kind, name_in_log(subject))


def _queues(vhosts: list[VirtualHost]) -> Parts[Queue]:
    for vhost in vhosts:
        for part in vhost.roll.parts(SAMPLES_A_SLICE):
            yield label("vhost", vhost.name), part


def _exchanges(vhosts: list[VirtualHost]) -> Parts[Exchange]:
    for vhost in vhosts:
        exchanges = list(vhost.exchanges.values())
        for start in range(0, len(exchanges), SAMPLES_A_SLICE):
            yield label("vhost", vhost.name), exchanges[start : start + SAMPLES_A_SLICE]


def _positions(vhosts: list[VirtualHost], node: DescribedNode, most: int) -> Parts[Progress]:
    """Yield the positions of cursors; the lag is counted for the first `most`, which are shown."""
    seen = 0
    for vhost in vhosts:
        for cursor in list(vhost.cursors.values()):
            for position in list(cursor.positions.values()):
                lag = lag_of(position, node.broker.work) if seen < most else None
                seen += 1
                yield label("vhost", vhost.name), [Progress(cursor, position, lag)]


def _connections(node: DescribedNode, selection: Selection) -> Parts[Connection]:
    for connection in list(node.connections.values()):
        vhost = connection.vhost
        if vhost is not None and selection.covers(vhost.name):
            yield label("vhost", vhost.name), [connection]


def _channels(node: DescribedNode, selection: Selection) -> Parts[Session]:
    """Yield the channels of the connections that are shown."""
    for head, connections in islice(_connections(node, selection), selection.objects_max):
        for connection in connections:
            yield head, list(connection.engine.sessions())
