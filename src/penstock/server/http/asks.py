"""Requests inside a node: an operation by its name, asked for by another process of the node for a user.

`POST /penstock/ask` has name and virtual host in the query and the fields as its body, as on the control exchange. The
answer is lines of JSON. Parts of long lists come first, then one line with the answer or the error. An empty line says
that the process is still at work: a process that hangs writes none. So who waits knows the difference.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import override

from penstock import errors
from penstock.connections.authorization import check_tag
from penstock.connections.control_request import IMPORT, IMPORT_OCTETS, AnswerReceiver, ControlRequest
from penstock.core.vhost import VirtualHost
from penstock.describe.list_kinds import is_gone
from penstock.describe.lists import Found
from penstock.describe.table import Row
from penstock.driver.driver import BrokerDriver
from penstock.errors import AccessRefused, BrokerError, NotOnDisk, ResourceError
from penstock.flow.pool import PoolHolder
from penstock.management.node import TLS_RELOAD
from penstock.management.operation import DETACH, Answer, Operation, Streamed, name_of
from penstock.server.asker import Asker, AskerError
from penstock.server.http.app import carried_out
from penstock.server.http.request import (
    ApiRequest,
    HttpError,
    Identity,
    LongAnswer,
    Service,
    bad_request,
)
from penstock.server.inside import ASKER_HEADER, BEAT_S, KEY_HEADER, Ask, is_key

ROWS_AT_ONCE: Final = 50
"""Rows of a list in one line."""
MADE_AT_ONCE: Final = 4
"""Objects of a list that are described in one slice."""
WITHOUT_LINES: Final = 20
"""Most rows of a list that stay in the line of the answer."""
NODE: Final = PoolHolder("node", "", True)
"""Holder of the sockets: all are of the node, whose processes bound them."""


class Asks:
    """Answers to requests inside a node, in one process."""

    async def answer(self, request: ApiRequest, row: Operation, ask: Ask, asker: Asker) -> Answer | Streamed:
        """Return the answer. Raises BrokerError."""
        raise NotImplementedError


class Inside:
    """Logins at a socket inside a node, and the requests there."""

    def __init__(self, key: str, asks: Asks) -> None:
        self._key = key
        self.asks = asks

    async def login(self, http_request: Request, driver: BrokerDriver) -> Identity:
        """Return the user that a request names, and set the client's address. Raises HttpError (401)."""
        asker = self.asker_of(http_request)
        host, _, port = asker.address.rpartition(":")
        http_request.scope["client"] = (host or asker.address, int(port) if port.isdecimal() else 0)
        broker = driver.broker
        if asker.ends_at() <= broker.now + broker.wall_offset:
            raise HttpError(401, "not_authorised", f"the login of user '{asker.user}' has expired")
        return Identity(asker.user, asker.rules(broker), asker.ends_at())

    def asker_of(self, http_request: Request) -> Asker:
        """Return the asker of a request. Raises HttpError (401) without the key of the node."""
        if not is_key(http_request.headers.get(KEY_HEADER, ""), self._key):
            raise HttpError(401, "not_authorised", "a request inside a node needs the key of the node")
        try:
            return Asker.of(http_request.headers.get(ASKER_HEADER, ""))
        except AskerError as error:
            raise HttpError(401, "not_authorised", str(error)) from None

    def endpoint(self, service: Service) -> Callable[[Request], Awaitable[Response]]:
        """Return the handler of requests for operations."""
        rows = {name_of(row): row for row in service.driver.control.rows}

        async def ask(http_request: Request) -> Response:
            try:
                await service.pause()
                identity = await self.login(http_request, service.driver)
                http_request.state.payer = identity.user
                http_request.state.socket.log_in(NODE)
                await service.debts.rest(identity.user)
                request = ApiRequest(http_request, service, identity)
                wanted = await _ask_of(request)
            except HttpError as error:
                return error.answer()
            row = rows.get(wanted.operation)
            if row is None:
                request.end()
                return bad_request(f"no operation '{wanted.operation}'").answer()
            return LongAnswer(_lines(self, request, row, wanted), http_request)

        return ask


async def _ask_of(request: ApiRequest) -> Ask:
    query = request.query
    fields = await request.fields(most=IMPORT_OCTETS)
    if "definitions" not in fields:
        request.end()  # Short bodies are counted while they arrive.
    detached = fields.pop(DETACH, None) is True or query.get("job") == "true"
    audited = query.get("audited") != "false"
    return Ask(query.get("operation", ""), fields, query.get("vhost", ""), query.get("tag"), audited, detached)


async def _lines(inside: Inside, request: ApiRequest, row: Operation, ask: Ask) -> AsyncIterator[bytes]:
    """Yield the lines of an answer, and an empty line now and then while it is made."""
    asker = inside.asker_of(request.http_request)
    making = asyncio.ensure_future(_made(inside.asks, request, row, ask, asker))
    try:
        while not (await asyncio.wait((making,), timeout=BEAT_S))[0]:
            yield b"\n"
        try:
            answer = making.result()
        except BrokerError as error:
            yield line({"error": error_row(error)})
            return
        parts = answer_lines(answer)
        while (part := next(parts, None)) is not None:
            yield part
            await request.pause()
    finally:
        making.cancel()
        request.end()


async def _made(asks: Asks, request: ApiRequest, row: Operation, ask: Ask, asker: Asker) -> Answer | Streamed:
    """Return an answer; unexpected errors are logged, and become BrokerErrors."""
    try:
        return await asks.answer(request, row, ask, asker)
    except BrokerError:
        raise
    except HttpError as error:
        raise ResourceError(str(error)) from None
    except Exception as unexpected:
        raise request.driver.failures.report(f"operation '{ask.operation}'", unexpected) from None


def error_row(error: BrokerError) -> Row:
    """Return an error with its class, by which the other process raises the same one.

    An error of a module's own is one of the class in `penstock.errors` that it is derived from.
    """
    name = error.reply.lower().replace("_", "-")
    kind = next(each for each in type(error).__mro__ if getattr(errors, each.__name__, None) is each)
    return {"code": int(error.code), "name": name, "kind": kind.__name__, "text": str(error)}


def line(content: Row) -> bytes:
    """Return one line."""
    return json.dumps(content, separators=(",", ":"), default=_decoded).encode() + b"\n"


def _decoded(value: object) -> str:
    """Return a text in UTF-8, which some rows have as bytes."""
    assert isinstance(value, bytes), f"{type(value).__name__} has no form in JSON"
    return value.decode()


def answer_lines(answer: Answer | Streamed) -> Iterator[bytes]:
    """Yield the lines of an answer; an empty one after rows that are made, but not yet enough for a line."""
    if isinstance(answer, Found):
        yield from _found_lines(answer)
    elif isinstance(answer, Streamed):
        names: Row = {}
        for name, parts in answer.lists:
            names[name] = []
            for rows in parts:
                yield line({"at": name, "rows": rows})
        yield line({"answer": {**answer.head, **names}})
    elif isinstance(answer, list) and len(answer) > WITHOUT_LINES:
        yield from _rows_lines("", answer)
        yield line({"answer": []})
    elif isinstance(answer, dict):
        head = dict(answer)
        for name, value in answer.items():
            if isinstance(value, list) and len(value) > WITHOUT_LINES:
                yield from _rows_lines(name, value)
                head[name] = []
        yield line({"answer": head})
    else:
        yield line({"answer": answer})


def _rows_lines(name: str, rows: list[Row]) -> Iterator[bytes]:
    for start in range(0, len(rows), ROWS_AT_ONCE):
        yield line({"at": name, "rows": rows[start : start + ROWS_AT_ONCE]})


def _found_lines(found: Found) -> Iterator[bytes]:
    """Yield the lines of a list: a page has its numbers besides its items; objects deleted meanwhile are left out."""
    name = "items" if found.page else ""
    rows: list[Row] = []
    for start in range(0, len(found.items), MADE_AT_ONCE):
        rows += [found.rows.of(item.subject) for item in found.items[start : start + MADE_AT_ONCE] if not is_gone(item)]
        if len(rows) >= ROWS_AT_ONCE:
            yield line({"at": name, "rows": rows})
            rows = []
        else:
            yield b""
    if rows:
        yield line({"at": name, "rows": rows})
    yield line({"answer": {**found.head(), "items": []} if found.page else []})


class _Later(AnswerReceiver):
    """Receiver of the answer of an operation that answers by itself."""

    def __init__(self, request: ControlRequest) -> None:
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        request.receiver = self

    @override
    def answered(self, answer: object) -> None:
        """See `AnswerReceiver`."""
        if not self.answer.done():
            assert isinstance(answer, dict)
            self.answer.set_result(answer)

    @override
    def failed(self, error: BrokerError) -> None:
        """See `AnswerReceiver`."""
        if not self.answer.done():
            self.answer.set_exception(error)


class OwnAsks(Asks):
    """Answers of the broker in this process, as it answers its own clients."""

    def __init__(self, shard: str) -> None:
        """`shard` is the name of the shard; empty for the node's own broker."""
        self._shard = shard

    async def answer(self, request: ApiRequest, row: Operation, ask: Ask, asker: Asker) -> Answer | Streamed:
        """See `Asks.answer`: the answer follows once the change is durable."""
        driver, event_loop = request.driver, request.event_loop
        changes = driver.broker.durable_changes
        before = changes.durable_declarations
        try:
            answer = await self._carry_out(request, row, ask, asker)
        except AccessRefused as error:
            if ask.audited:
                driver.audit.refused(asker.actor(), ask.operation, str(error))
            raise
        if changes.durable_declarations != before:
            try:
                await event_loop.on_disk(before)
            except TimeoutError:
                raise NotOnDisk("the change is made, but not durable yet: the disk has not answered in time") from None
        return answer

    async def _carry_out(self, request: ApiRequest, row: Operation, ask: Ask, asker: Asker) -> Answer | Streamed:
        driver = request.driver
        asked = self._request_of(request, ask, asker)
        check_tag(asked.access, row.tag if ask.tag is None else ask.tag, f"control operation '{ask.operation}'")
        if row.before is not None:
            asked.before = row.before(driver, asked)
        after = dict(ask.fields)
        later = _Later(asked) if row.name == TLS_RELOAD else None
        answer = await carried_out(request, row, asked)
        if later is not None and answer is None:
            answer = await later.answer
        if request.detached is not None:
            return driver.jobs.row(request.detached)
        if row.audited and ask.audited and answer is not None:
            made: object = answer if ask.operation == IMPORT else after
            driver.audit.change(asker.actor(), ask.operation, asked.subject(), asked.before, made)
        return answer

    def _request_of(self, request: ApiRequest, ask: Ask, asker: Asker) -> ControlRequest:
        """Return the request for the broker: in an empty virtual host if this process does not have the one asked."""
        broker = request.driver.broker
        vhost: VirtualHost | None = broker.vhosts.get(ask.vhost)
        if vhost is None and ask.vhost:
            vhost = VirtualHost(ask.vhost, broker, broker.table, broker.gates)
        connection = None
        if asker.connection and asker.shard == self._shard:
            connection = request.driver.connections.get(int(asker.connection))
        asked = ControlRequest(vhost, connection, asker.reply_to or None, None, b"{}", asker.access(broker, ask.vhost))
        asked.fields = dict(ask.fields)
        asked.remote = asker.label if asker.connection else ""
        asked.peer = asker.address
        request.asker = asker.label or request.asker
        request.begin()
        return asked
