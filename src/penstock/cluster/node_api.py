"""HTTP API of a node: each request is answered by those who have what it is about, as the row of its operation says.

What one shard has is passed on to the shard whole. What all have is asked of all, and joined. Users, permissions,
virtual hosts and the node itself are answered here, by the handlers of any broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from starlette.responses import Response
from typing_extensions import override

from penstock.access.permission import ADMINISTRATOR
from penstock.cluster.answers import NodeAnswers
from penstock.cluster.http_pass import Begin, passed_on
from penstock.cluster.node_maps import NodeMaps
from penstock.cluster.shard_http import Headers, ShardRequest
from penstock.cluster.ways import Ways
from penstock.connections.control_request import ControlRequest
from penstock.describe.table import Row
from penstock.management.operation import ALL, VHOST, Answer, Join, Operation, Route, who_answers
from penstock.operations.joins import (
    NODES,
    OF_NODES,
    OF_RESOURCES,
    OVERVIEW,
    PORTS,
    RESOURCES,
    SUMMED,
    counted_listener,
)
from penstock.operations.vhosts import DECLARE_VHOST, DELETE_VHOST
from penstock.server.asker import Asker
from penstock.server.http.app import carried_out
from penstock.server.http.console.hub import Maps
from penstock.server.http.request import ApiRequest, HttpElsewhere, HttpError, Joined, decoded, http_actor, not_found

BY_ANSWERS: Final = (DECLARE_VHOST, DELETE_VHOST)
"""Changes of the catalogue that shards take part in."""
OF_SHARDS: Final[Mapping[Join, tuple[str, ...]]] = {OVERVIEW: SUMMED, NODES: OF_NODES, RESOURCES: OF_RESOURCES}
"""Answers about the node itself, and their fields that are those of all shards."""


def asker_of(request: ApiRequest) -> Asker:
    """Return the user of a request, for another process of the node."""
    address = http_actor(request.http_request, request.user).address
    return Asker.of_http(request.user, request.rules, request.expires_at, address)


class NodeApi(HttpElsewhere):
    """The shards of a node, for its HTTP API."""

    def __init__(self, ways: Ways, answers: NodeAnswers) -> None:
        self._ways = ways
        self._answers = answers

    @override
    async def passed(self, request: ApiRequest, operation: Operation, route: Route) -> Response | None:
        if "vhost" not in request.http_request.path_params:
            return None
        fields: Row = {**route.fixed, "vhost": vhost_of(request, route)}
        return await self._passed(request, route) if who_answers(operation, fields) == VHOST else None

    @override
    async def answer(
        self, request: ApiRequest, operation: Operation, route: Route, asked: ControlRequest
    ) -> Response | Joined | None:
        answers = who_answers(operation, asked.fields)
        if answers == VHOST:
            return await self._passed(request, route)
        if answers != ALL and operation.name not in BY_ANSWERS:
            return None
        if operation.before is not None and operation.name in BY_ANSWERS:
            request.before = operation.before(request.driver, asked)
            if request.before is None and route.method == "DELETE":
                raise not_found()
        request.answered_elsewhere = True
        vhost, is_job = vhost_of(request, route), operation.job is not None and request.flag("job")
        fields = {**asked.fields, PORTS: True} if operation.join is RESOURCES else _as_json(asked.fields)
        found = await self._answers.joined(operation, fields, vhost, asker_of(request), route.tag, is_job)
        answer = found.answer
        if operation.join in OF_SHARDS:
            answer = await self._with_own(request, operation, asked, answer)
        return Joined(answer, [(each.shard, each.reason) for each in found.missing], is_job)

    async def _with_own(
        self, request: ApiRequest, operation: Operation, asked: ControlRequest, joined: Answer
    ) -> Answer:
        """Return what a node answers about itself: listeners, name and process are its own, sums those of shards."""
        own = await carried_out(request, operation, asked)
        assert operation.join is not None
        names = OF_SHARDS[operation.join]
        if isinstance(own, list) and isinstance(joined, list):
            return [{**row, **_only(other, names)} for row, other in zip(own, joined, strict=False)]
        if not isinstance(own, dict) or not isinstance(joined, dict):
            return None
        answer = {**own, **_only(joined, names)}
        counts, listeners = answer.pop(PORTS, None), own.get("listeners")
        if isinstance(counts, dict) and isinstance(listeners, list):
            answer["listeners"] = [counted_listener(each, counts) for each in listeners]
        return answer

    async def _passed(self, request: ApiRequest, route: Route) -> Response | None:
        """Pass a request on to the shard of its virtual host; None without such a virtual host."""
        vhost = vhost_of(request, route)
        shard = self._ways.shard_of(vhost)
        if shard is None:
            if vhost in request.driver.broker.vhosts:
                reason = f"vhost '{vhost}' is being created"
                raise HttpError(503, "service_unavailable", reason, {"Retry-After": "1"})
            return None
        request.answered_elsewhere = True
        begin: Begin = partial(self._begin, shard, asker_of(request))
        return await passed_on(request.http_request, begin, request.read)

    async def _begin(self, shard: str, asker: Asker, method: bytes, target: bytes, headers: Headers) -> ShardRequest:
        return await self._ways.request(shard, asker, method, target, headers)

    @override
    async def settled(self) -> None:
        await self._answers.settled()

    @override
    def maps(self, request: ApiRequest) -> Maps:
        rules = None if request.rules.has_tag(ADMINISTRATOR) else request.rules
        return NodeMaps(request.service.hub, rules, self._ways, asker_of(request))


def vhost_of(request: ApiRequest, route: Route) -> str:
    """Return the virtual host that path or query of a request name; empty if they name none."""
    if route.queried:
        return request.query.get("vhost", "/")
    return decoded(request.http_request.path_params.get("vhost", ""))


def _as_json(fields: Row) -> Row:
    """Return fields in the form of JSON: a body as it came is a text, whose errors its reader finds."""
    return {name: each.decode(errors="replace") if isinstance(each, bytes) else each for name, each in fields.items()}


def _only(row: Row, names: tuple[str, ...]) -> Row:
    return {name: row[name] for name in names if name in row}
