"""Bridges of a broker: those that parameters define, what the worker is to run, and what the worker reports of each.

The worker runs outside of the broker (server/bridge_worker.py). The broker gives it a spec of each bridge, which is a
JSON object, and the worker reports states and counts. A bridge whose parameter names no user is paused and not run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from mypy_extensions import mypyc_attr

from penstock.access.permission import MONITORING, grants
from penstock.connections.log_line import LogLine
from penstock.core.broker import Broker
from penstock.core.settings.table import Parameter
from penstock.describe.table import Row
from penstock.flow.pool import PoolHolder
from penstock.logs.ids import CHANGED
from penstock.management.bridge_ends import SOURCE, TARGET, end_title, queue_here
from penstock.settings.pools import BRIDGES

SHOVEL: Final = "shovel"
BRIDGE: Final = "bridge"
UPSTREAM: Final = "federation-upstream"
UPSTREAM_SET: Final = "federation-upstream-set"
FEDERATION: Final = "federation"
"""Component of the links of an upstream, in specs and lists."""
RUNNING: Final[tuple[str, ...]] = (SHOVEL, BRIDGE)
"""Components of parameters that are one bridge each."""
OWNED: Final[tuple[str, ...]] = (SHOVEL, BRIDGE, UPSTREAM)
"""Components of parameters that run with the rights of a user."""
STARTING: Final = "starting"
MOVING: Final = "moving"
IDLE: Final = "idle"
HELD: Final = "held"
REFUSED: Final = "refused"
AWAY: Final = "away"
ENDED: Final = "ended"
PAUSED: Final = "paused"
UNUSED: Final = "unused"
REPORTED: Final[tuple[str, ...]] = (STARTING, MOVING, IDLE, HELD, REFUSED, AWAY, ENDED)
"""States that the worker reports."""
STATES: Final[tuple[str, ...]] = (*REPORTED, PAUSED, UNUSED)
"""States of a bridge. The last one is of an upstream that no policy uses."""
COUNTS: Final[tuple[str, ...]] = ("carried", "bytes", "refused", "again")
"""Counts of messages and bytes since the worker began the bridge."""
TEXT_MOST: Final = 1_000
"""Most characters of a text of a report; the rest is cut off."""
WHY_MOST: Final = 20
"""Most sentences of a report about the reason of a state; more are dropped."""
DELIVERIES: Final[tuple[str, ...]] = ("exactly once", "at least once")


def key_of(component: str, vhost: str, *names: str) -> str:
    """Return the key of a bridge. A colon in the name of the virtual host is escaped, so that keys differ."""
    return ":".join([component, vhost.replace("%", "%25").replace(":", "%3A"), *names])


@mypyc_attr(allow_interpreted_subclasses=True)
class SpecSource:
    """Source of specs of bridges besides their own parameters: the links of federation."""

    @property
    def epoch(self) -> int:
        """Number that grows when `specs` may have changed, besides changes of parameters."""
        raise NotImplementedError

    def specs(self) -> Iterable[Row]:
        """Return the specs of all bridges of this source, also of paused ones (their `run_as` is empty)."""
        raise NotImplementedError

    def news(self) -> list[str]:
        """Return the keys of bridges that should look at the broker again, each once for each change."""
        return []


class Bridge:
    """A bridge: its spec, and the last report of the worker."""

    def __init__(self, table: BridgeTable, spec: Row, is_used: bool = True) -> None:
        self._table = table
        self.spec = spec
        self.is_used = is_used
        """False for an upstream without links."""
        self.key = str(spec["key"])
        self.component = str(spec["component"])
        self.vhost = str(spec["vhost"])
        self.name = str(spec["name"])
        self.run_as = str(spec["run_as"])
        self.revision: object = spec["revision"]
        self.report: Row = {}
        """Last report; empty before the first."""
        self.reported: float = 0.0
        """Time of the last report, in monotonic seconds."""
        self.holder: PoolHolder | None = None
        """Holder of its unit of the pool of bridges; None for a paused bridge, and for a link."""
        self._titles: dict[str, str] = {}
        """Ends of its spec without secrets, once somebody has asked for one."""
        self._queues: dict[str, tuple[str, str]] = {}
        """Virtual host and name of the queues of this broker at both ends, once they were asked for."""

    def has_queue(self, side: str, vhost: str, queue: str) -> bool:
        """Return whether an end (SOURCE or TARGET) is a queue of this broker."""
        if not self._queues:
            self._queues = {each: queue_here(self.spec, each) for each in (SOURCE, TARGET)}
        return self._queues[side] == (vhost, queue)

    def is_of(self, parameter: Parameter) -> bool:
        """Return whether this is the bridge of a parameter, or a link of an upstream."""
        component = UPSTREAM if self.component == FEDERATION else self.component
        return (component, self.vhost, self.name) == parameter.key()

    def state(self) -> tuple[str, str]:
        """Return the state and its reason."""
        if not self.run_as:
            return PAUSED, ""
        if not self.is_used:
            return UNUSED, f"no policy gives upstream {self.name} to a queue or an exchange"
        if self._table.worker:
            return AWAY, self._table.worker
        return str(self.report.get("state", STARTING)), str(self.report.get("reason", ""))

    def count(self, name: str) -> int:
        """Return one of the counts since the worker began the bridge."""
        count = self.report.get(name, 0)
        assert isinstance(count, int)
        return count

    def end(self, side: str) -> str:
        """Return an end (SOURCE or TARGET) without secrets: as the worker reports it, or else of the parameter."""
        reported = str(self.report.get(side, ""))
        if reported:
            return reported
        if not self._titles:
            self._titles = {each: end_title(self.spec, each) for each in (SOURCE, TARGET)}
        return self._titles[side]

    def row(self) -> Row:
        """Return the bridge as plain data, without the value of its parameter."""
        state, reason = self.state()
        report = self.report
        row: Row = {"name": self.name, "vhost": self.vhost, "component": self.component, "key": self.key}
        row["user"] = self.run_as or None
        row["state"], row["reason"] = state, reason
        row["since"] = report.get("since")
        for name in COUNTS:
            row[name] = self.count(name)
        for name in ("last", "lag", "delivery"):
            row[name] = report.get(name)
        row["why"] = report.get("why", [])
        row["source"], row["target"] = self.end(SOURCE), self.end(TARGET)
        row["link"] = self.spec.get("link")
        return row


class BridgeTable:
    """All bridges of a broker."""

    def __init__(self, broker: Broker, log: Callable[[LogLine], None]) -> None:
        self._broker = broker
        self._log = log
        self.sources: list[SpecSource] = []
        """Sources of bridges besides parameters."""
        self.worker: str = ""
        """Sentence about a worker that is not there; empty when it is there."""
        self._bridges: dict[str, Bridge] = {}
        self._wanted: dict[str, Row] = {}
        self._own: dict[tuple[str, str, str], Bridge] = {}
        """Shovels and bridges, by their parameters."""
        self._order: list[Bridge] = []
        """All bridges in the order of their keys; empty before somebody has asked for it."""
        self._read: int = -1
        """Epoch at which the bridges were read."""

    @property
    def epoch(self) -> int:
        """Number that grows when `wanted` may have changed."""
        return self._broker.table.parameters.changes + sum([source.epoch for source in self.sources])

    def wanted(self) -> dict[str, Row]:
        """Return the specs of all bridges that are to run, by key. They contain secrets."""
        self._renew()
        return self._wanted

    def news(self) -> list[str]:
        """Return the keys of bridges that should look at the broker again, since the last call."""
        self._renew()
        return [key for source in self.sources for key in source.news() if key in self._wanted]

    def report(self, key: str, row: Row, now: float) -> None:
        """Take a report of the worker; a shovel or bridge that has ended is deleted with its parameter.

        Dropped are reports of bridges that are not wanted, or of another `revision` if a report names its own.
        """
        self._renew()
        bridge = self._bridges.get(key)
        if bridge is None or key not in self._wanted or row.get("revision", bridge.revision) != bridge.revision:
            return
        bridge.report, bridge.reported = read_report(row), now
        if bridge.report["state"] == ENDED and bridge.component in RUNNING:
            self._drop(bridge)

    def all(self, vhost: str | None = None) -> list[Bridge]:
        """Return the bridges of a virtual host, or of all, in the order of their keys."""
        self._renew()
        if not self._order:
            self._order = [self._bridges[key] for key in sorted(self._bridges)]
        return [each for each in self._order if each.vhost == vhost] if vhost is not None else self._order

    def get(self, key: str) -> Bridge | None:
        """Return a bridge; None if there is none."""
        self._renew()
        return self._bridges.get(key)

    def rows(self, vhost: str | None = None) -> list[Row]:
        """Return the bridges of a virtual host, or of all, as plain data."""
        return [bridge.row() for bridge in self.all(vhost)]

    def restart(self, component: str, vhost: str, name: str) -> bool:
        """Let the worker end the bridges of a parameter and begin them again; return whether the parameter exists."""
        parameters = self._broker.table.parameters
        parameter = parameters.get(component, vhost, name)
        if parameter is None:
            return False
        parameters.touch(parameter)
        return True

    def pause_all_of(self, user: str) -> int:
        """Pause the bridges that run as a user, who is deleted; return their number.

        Another user of the same name must not run what this one has set.
        """
        parameters, journal = self._broker.table.parameters, self._broker.journal
        found = [each for each in parameters.of() if each.run_as == user]
        for parameter in found:
            paused = Parameter(*parameter.key(), parameter.value)
            parameters.put(paused)
            if journal is not None:
                journal.change(paused)
        return len(found)

    def _renew(self) -> None:
        """Read the bridges again after a change; a bridge that has not changed stays as it is, with its report."""
        epoch = self.epoch
        if epoch == self._read:
            return
        self._read, self._order = epoch, []
        before, self._bridges, self._wanted = self._bridges, {}, {}
        upstreams = self._renew_own()
        used: set[tuple[str, str]] = set()
        for source in self.sources:
            for spec in source.specs():
                used.add((str(spec["vhost"]), str(spec["name"])))
                kept = before.get(str(spec["key"]))
                self._add(kept if kept is not None and kept.spec is spec else Bridge(self, spec))
        for parameter in upstreams:
            if (parameter.vhost, parameter.name) not in used:
                self._add(Bridge(self, {**spec_of(parameter), "component": FEDERATION}, False))

    def _renew_own(self) -> list[Parameter]:
        """Read the shovels and bridges again; return the upstreams."""
        before, self._own = self._own, {}
        upstreams: list[Parameter] = []
        pool = self._broker.pools.of(BRIDGES)
        for parameter in self._broker.table.parameters.every():
            if parameter.component in RUNNING:
                key = parameter.key()
                kept = before.get(key)
                if kept is not None and kept.revision == parameter.revision:
                    del before[key]
                    bridge = kept
                else:
                    bridge = Bridge(self, spec_of(parameter))
                    if bridge.run_as:
                        bridge.holder = holder_of(self._broker, parameter, bridge.run_as)
                        pool.add(bridge.holder, 1)
                self._own[key] = bridge
                self._add(bridge)
            elif parameter.component == UPSTREAM:
                upstreams.append(parameter)
        for bridge in before.values():
            if bridge.holder is not None:
                pool.give(bridge.holder, 1)
        return upstreams

    def _add(self, bridge: Bridge) -> None:
        self._bridges[bridge.key] = bridge
        if bridge.run_as and bridge.is_used:
            self._wanted[bridge.key] = bridge.spec

    def _drop(self, bridge: Bridge) -> None:
        parameter = self._broker.table.parameters.drop(bridge.component, bridge.vhost, bridge.name)
        assert parameter is not None
        if self._broker.journal is not None:
            self._broker.journal.forget(parameter)
        self._log(
            LogLine(f"[vh({bridge.vhost})] {bridge.component} '{bridge.name}' has ended; deleted", {"id": CHANGED})
        )


def holder_of(broker: Broker, parameter: Parameter, user: str) -> PoolHolder:
    """Return a user as the holder of a bridge that runs."""
    account = broker.access.find(user)
    return PoolHolder(user, parameter.vhost, account is not None and grants(account.tags, MONITORING))


def spec_of(parameter: Parameter) -> Row:
    """Return the spec of the bridge of a parameter."""
    component, vhost, name = parameter.key()
    return {
        "key": key_of(component, vhost, name),
        "component": component,
        "vhost": vhost,
        "name": name,
        "run_as": parameter.run_as,
        "revision": parameter.revision,
        "value": parameter.value,
    }


def read_report(row: Row) -> Row:
    """Return a report in its bounds: values of other types become their defaults, and long texts are cut off."""
    state, delivery, why, lag = row.get("state"), row.get("delivery"), row.get("why"), row.get("lag")
    report: Row = {name: _text(row.get(name)) for name in ("reason", "source", "target")}
    report["state"] = state if state in REPORTED else STARTING
    report["delivery"] = delivery if delivery in DELIVERIES else DELIVERIES[-1]
    for name in COUNTS:
        report[name] = _count(row.get(name)) or 0
    report["lag"] = None if lag is None else _count(lag)
    for name in ("since", "last"):
        report[name] = _time(row.get(name))
    report["why"] = [_text(each) for each in why[:WHY_MOST]] if isinstance(why, list) else []
    return report


def _text(value: object) -> str:
    return value[:TEXT_MOST] if isinstance(value, str) else ""


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _time(value: object) -> float | None:
    """Return wall seconds since the epoch; None for no time."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0 else None
