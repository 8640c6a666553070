"""Links of federation: which upstreams the queues and exchanges with such a policy get messages from.

A policy names an upstream, a set of them, or an expression over their names. Each upstream of an object is one link,
which is a bridge that the worker runs. The links follow from three tables: parameters, policies and the federated
objects; they are found again when one of these has changed, and a link that is the same keeps its revision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit
from zlib import crc32

from typing_extensions import override

from penstock.connections.log_line import LogLine
from penstock.core.broker import Broker
from penstock.core.consume.rotation import rotation_of
from penstock.core.queue.queue import Queue
from penstock.core.routing.exchange import EXCHANGE, QUEUE
from penstock.core.settings.federated import ObjectKey
from penstock.core.settings.policies import UPSTREAM as BY_NAME
from penstock.core.settings.policies import UPSTREAM_SET as BY_SET
from penstock.core.settings.policies import Policy, UpstreamChoice
from penstock.core.settings.table import Parameter
from penstock.describe.bridges import RUNNING, link_status
from penstock.describe.table import Row, plain
from penstock.logs.ids import CHANGED
from penstock.management.bridges import (
    FEDERATION,
    UPSTREAM,
    UPSTREAM_SET,
    SpecSource,
    key_of,
)

FEDERATED: Final = -1
"""Priority of a link as a consumer of its upstream: others come first, and it does not count as one that waits."""
LINKS_MOST: Final = 1_000
"""Most links of a broker; objects beyond have none, which is logged."""
EVERY: Final = "all"
"""Name of the set of all upstreams of a virtual host."""
OF_SET: Final = "upstream"
"""Key of an element of a set that names the upstream; its others replace those of the upstream."""


class Upstream:
    """An upstream, as a policy names it."""

    def __init__(self, parameter: Parameter, replaced: Row, of_set: Parameter | None) -> None:
        self.parameter = parameter
        given = parameter.value if isinstance(parameter.value, dict) else {}
        self.value: Row = {**given, **replaced}
        """Value of the parameter, with the keys that an element of a set replaces."""
        self.revisions: tuple[int, int] = (parameter.revision, 0 if of_set is None else of_set.revision)

    def name_at(self, kind: str, name: str) -> str:
        """Return the name of the queue or exchange at the upstream: its own name by default."""
        given = self.value.get(kind)
        return given if isinstance(given, str) and given else name


class FederationLinks(SpecSource):
    """Links of a broker, as specs for the worker."""

    def __init__(self, broker: Broker, log: Callable[[LogLine], None], cluster: Callable[[], str]) -> None:
        self._broker = broker
        self._log = log
        self._cluster = cluster
        """Function that returns the name of the cluster of this broker."""
        self._specs: dict[str, Row] = {}
        self._revisions: dict[str, tuple[int, int]] = {}
        """Revisions of the parameters of each link."""
        self._read: tuple[int, int] = (-1, -1)
        """Changes of both tables at which the links were found."""
        self._revision: int = 0
        self._seen: dict[str, tuple[object, int]] = {}
        """Last state of the queue or exchange of each link, for `news`."""
        self.left_out: str = ""
        """Sentence about objects without links because of `LINKS_MOST`; empty without any."""

    @property
    @override
    def epoch(self) -> int:
        return self._broker.table.federated.epoch

    @override
    def specs(self) -> Iterable[Row]:
        table = self._broker.table
        changes = (table.parameters.changes, table.federated.epoch)
        if changes != self._read:
            self._read = changes
            self._renew()
        return self._specs.values()

    @override
    def news(self) -> list[str]:
        """Return the links whose exchange has other bindings, or at whose queue consumers begin or cease to wait."""
        found: list[str] = []
        seen: dict[str, tuple[object, int]] = {}
        for key, spec in self._specs.items():
            seen[key] = state = self._state_of(spec)
            if self._seen.get(key, state) != state:
                found.append(key)
        self._broker.work.done += len(seen)
        self._seen = seen
        return found

    def _state_of(self, spec: Row) -> tuple[object, int]:
        """Return the object of a link, and a number that changes with what the link looks for."""
        link = spec["link"]
        assert isinstance(link, dict)
        vhost, name = self._broker.vhosts.get(str(spec["vhost"])), str(link["resource"])
        if vhost is None:
            return None, 0
        if link["kind"] == EXCHANGE:
            exchange = vhost.exchanges.get(name)
            return exchange, 0 if exchange is None else int(exchange.version)
        queue = vhost.queues.get(name)
        return queue, 0 if queue is None else int(waiting_room(queue, 1, self._broker.now))

    def _renew(self) -> None:
        """Find the links again."""
        before, self._specs = self._specs, {}
        revisions, self._revisions = self._revisions, {}
        left_out, cluster = "", self._cluster()
        for key, policy, upstream in self._wanted():
            if len(self._specs) >= LINKS_MOST:
                kind, vhost, name = key
                left_out = (
                    f"{kind} '{name}' in vhost '{vhost}', and all after it, have no link of federation: there are "
                    f"{LINKS_MOST:,}, the most that there may be"
                )
                break
            spec = self._spec(key, policy, upstream, cluster)
            same = str(spec["key"])
            earlier = before.get(same)
            if earlier is not None and _is_same(earlier, spec) and revisions[same] == upstream.revisions:
                spec = earlier
            else:
                self._revision += 1
                spec["revision"] = self._revision
            self._specs[same] = spec
            self._revisions[same] = upstream.revisions
        if left_out and not self.left_out:
            self._log(LogLine(left_out, {"id": CHANGED}))
        self.left_out = left_out

    def _wanted(self) -> Iterator[tuple[ObjectKey, Policy, Upstream]]:
        """Yield each object with each of its upstreams, policy by policy."""
        of_vhosts: dict[str, dict[str, Parameter]] = {}
        for policy, objects in self._broker.table.federated.objects.items():
            there = of_vhosts.get(policy.vhost)
            if there is None:
                there = of_vhosts[policy.vhost] = upstreams_of(self._broker, policy.vhost)
            assert policy.upstreams is not None
            upstreams = chosen_upstreams(self._broker, policy.vhost, policy.upstreams, there)
            if upstreams:
                for key in objects:
                    for upstream in upstreams:
                        yield key, policy, upstream

    def _spec(self, key: ObjectKey, policy: Policy, upstream: Upstream, cluster: str) -> Row:
        kind, vhost, name = key
        at_upstream, of = upstream.name_at(kind, name), upstream.parameter
        tag = upstream.value.get("consumer-tag")
        link: Row = {"kind": kind, "resource": name, "upstream": at_upstream, "policy": policy.name}
        link["uri"], link["cluster"] = safe_uri(upstream.value.get("uri")), cluster
        link["consumer_tag"] = tag if isinstance(tag, str) else f"federation-link-{of.name}"
        link |= self._declared(key)
        same = link_key(vhost, of.name, kind, name, at_upstream)
        link["id"] = f"{crc32(same.encode(errors='replace')):08x}"
        return {
            "key": same,
            "component": FEDERATION,
            "vhost": vhost,
            "name": of.name,
            "run_as": of.run_as,
            "revision": 0,
            "value": upstream.value,
            "link": link,
        }

    def _declared(self, key: ObjectKey) -> Row:
        """Return how the object was declared, as the upstream's is declared if it is not there."""
        kind, vhost, name = key
        host = self._broker.vhosts[vhost]
        if kind == EXCHANGE:
            exchange = host.exchanges[name]
            declared: Row = {"type": exchange.kind, "durable": exchange.durable, "auto_delete": exchange.auto_delete}
            return {**declared, "arguments": plain(exchange.arguments)}
        queue = host.queues[name]
        return {"durable": queue.durable, "auto_delete": queue.auto_delete, "arguments": plain(queue.arguments)}


def upstreams_of(broker: Broker, vhost: str) -> dict[str, Parameter]:
    """Return the upstreams of a virtual host by their names."""
    return {each.name: each for each in broker.table.parameters.of(UPSTREAM, vhost)}


def chosen_upstreams(broker: Broker, vhost: str, choice: UpstreamChoice, there: dict[str, Parameter]) -> list[Upstream]:
    """Return the upstreams that a policy names; names without an upstream are passed over, as in RabbitMQ."""
    if choice.pattern is not None:
        broker.work.done += len(there)
        return [Upstream(there[name], {}, None) for name in there if choice.pattern.matches(name)]
    if choice.key == BY_NAME:
        found = there.get(choice.name)
        return [] if found is None else [Upstream(found, {}, None)]
    assert choice.key == BY_SET
    if choice.name == EVERY:
        return [Upstream(each, {}, None) for each in there.values()]
    named = broker.table.parameters.get(UPSTREAM_SET, vhost, choice.name)
    return [] if named is None else list(_elements(named, there))


def missing_sentence(broker: Broker, policy: Policy) -> str:
    """Return a sentence about a policy whose upstreams do not exist; "" for others."""
    choice = policy.upstreams
    if choice is None or chosen_upstreams(broker, policy.vhost, choice, upstreams_of(broker, policy.vhost)):
        return ""
    return f"{choice.key}={choice.name} names no upstream of vhost '{policy.vhost}' yet; links begin with the first one"


def waiting_room(queue: Queue, most: int, now: float) -> int:
    """Return how many messages the waiting consumers of an empty queue may have, `most` at most."""
    rotation = rotation_of(queue)
    if rotation is None or queue.waiting():
        return 0
    return int(rotation.room(FEDERATED + 1, most, now))


def link_key(vhost: str, upstream: str, kind: str, name: str, at_upstream: str) -> str:
    """Return the key of a link. Only its last part may have a colon, so that no two links share a key."""
    where = kind if at_upstream == name else f"{kind}={_escaped(at_upstream)}"
    return key_of(FEDERATION, vhost, _escaped(upstream), where, name)


def safe_uri(uri: object) -> str:
    """Return a URI, or the first of a list, without user, password and parameters; "" for anything else."""
    first = uri[0] if isinstance(uri, list) and uri else uri
    try:
        parts = urlsplit(first if isinstance(first, str) else "")
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return ""
    host = parts.hostname or ""
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}{parts.path}" if parts.scheme else ""


def link_row(row: Row, node: str) -> Row:
    """Return a link in RabbitMQ's form, made of its row as a bridge (`Bridge.row`)."""
    link = row["link"]
    assert isinstance(link, dict)
    kind, since = link["kind"], row["since"]
    found: Row = {"node": node, str(kind): link["resource"], f"upstream_{kind}": link["upstream"]}
    if kind == QUEUE:
        found["consumer_tag"] = link["consumer_tag"]
    status = link_status(str(row["state"]))
    found |= {"type": kind, "vhost": row["vhost"], "upstream": row["name"], "id": link["id"], "status": status}
    if status == RUNNING:
        found["local_connection"] = row["key"]
    elif row["reason"]:
        found["error"] = row["reason"]
    found["uri"] = link["uri"]
    if isinstance(since, (int, float)):
        found["timestamp"] = f"{datetime.fromtimestamp(since, UTC):%Y-%m-%d %H:%M:%S}"
    return found


def _escaped(name: str) -> str:
    return name.replace("%", "%25").replace(":", "%3A")


def _is_same(earlier: Row, spec: Row) -> bool:
    """Return whether two specs of a key ask for the same."""
    return earlier["value"] == spec["value"] and earlier["link"] == spec["link"] and earlier["run_as"] == spec["run_as"]


def _elements(named: Parameter, there: dict[str, Parameter]) -> Iterator[Upstream]:
    """Yield the upstreams of a set."""
    elements = named.value if isinstance(named.value, list) else []
    for element in elements:
        if isinstance(element, dict):
            parameter = there.get(str(element.get(OF_SET)))
            if parameter is not None:
                replaced = {str(key): value for key, value in element.items() if key not in (OF_SET, "uri")}
                yield Upstream(parameter, replaced, named)
