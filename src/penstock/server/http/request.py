"""HTTP requests of logged-in users: access to path, query and body, and the form of all answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar
from urllib.parse import unquote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from penstock.access.permission import MONITORING
from penstock.access.rules import ConnectionAccess, Rules
from penstock.connections.audit_trail import Actor
from penstock.connections.control_request import ControlRequest as Control
from penstock.core.vhost import VirtualHost
from penstock.describe.table import Row
from penstock.driver.driver import BrokerDriver
from penstock.errors import AccessRefused
from penstock.flow.pool import PoolHolder
from penstock.flow.progress import WorkProgress
from penstock.flow.timers import NEVER
from penstock.flow.wait import Wait, Waits
from penstock.flow.work import Steps
from penstock.management.jobs import Job, Subject
from penstock.management.json_reader import JsonError, JsonReader
from penstock.management.operation import Answer, Operation, Route
from penstock.server.event_loop import EventLoop
from penstock.server.http.admission import HttpDebts, result_of
from penstock.server.http.console.hub import Hub, Maps
from penstock.settings.kind import FLAG, INVALID, Kind
from penstock.settings.pools import HTTP_BODIES

Told = TypeVar("Told")

BODY_MOST: Final = 128 * 1024
"""Most bytes of a request body, other than messages and definitions."""
BODY_S: Final = 30.0
"""Seconds that a body may take to arrive."""
SEND_S: Final = 30.0
"""Seconds that a client may take nothing of a long answer; then it is hung up on, so that its socket is free."""
FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-real-ip", "via")
"""Headers by which a proxy marks a forwarded request; their values are not trusted."""


class HttpError(Exception):
    """Error answer: a status, and the two words and the sentence that RabbitMQ's tools expect."""

    def __init__(self, status: int, error: str, reason: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.error = error
        self.headers = headers

    def answer(self) -> Response:
        """Return the answer for this error."""
        return json_response({"error": self.error, "reason": str(self)}, self.status, self.headers)


def json_response(content: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return an answer in JSON."""
    return Response(json_octets(content), status, headers, "application/json")


def json_octets(content: object) -> bytes:
    """Return a value as JSON in UTF-8; a lone surrogate, which UTF-8 cannot encode, becomes an escape of JSON."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode(errors="backslashreplace")


class StreamedAnswer(StreamingResponse):
    """Answer that is written in parts until its client disconnects. It leaves no cycle of objects in either case."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        writing = asyncio.ensure_future(self.stream_response(send))
        gone = asyncio.ensure_future(until_gone(receive))
        try:
            try:
                await asyncio.wait((writing, gone), return_when=asyncio.FIRST_COMPLETED)
            finally:
                writing.cancel()
                gone.cancel()
                await asyncio.wait((writing, gone))
            if not writing.cancelled():
                writing.result()
        finally:
            del writing  # Its error refers to this frame.


class LongAnswer(StreamedAnswer):
    """JSON answer that is written in parts as fast as its client reads."""

    def __init__(self, parts: AsyncIterator[bytes], http_request: Request) -> None:
        super().__init__(parts, media_type="application/json")
        self._http_request = http_request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""

        async def send_in_time(message: Message) -> None:
            try:
                async with asyncio.timeout(SEND_S):
                    await send(message)
            except TimeoutError:
                self._http_request.state.socket.hang_up()  # The answer ends as if the client had disconnected.

        await super().__call__(scope, receive, send_in_time)


OVERFLOW_HEADER: Final = "Penstock-Overflow"
"""Header of answers without a body: which queues overflow otherwise from now on, and at which numbers."""


def no_content(status: int = 204, headers: dict[str, str] | None = None) -> Response:
    """Return an answer without a body."""
    return Response(status_code=status, headers=headers)


def overflow_header(sentences: object) -> dict[str, str]:
    """Return the header, for an answer without a body, that shows the new overflow policy of queues; {} for none.

    Names may have control characters, which a header cannot have: they are escaped, like all that is not ASCII.
    """
    if not isinstance(sentences, list) or not sentences:
        return {}
    return {OVERFLOW_HEADER: "; ".join(sentences).encode("unicode_escape").decode()}


def accepted(job: Row) -> Response:
    """Return the answer to a request whose job continues: the row of the job, and its path."""
    return json_response(job, 202, {"Location": f"/api/penstock/jobs/{job['id']}"})


def bad_request(reason: str) -> HttpError:
    """Return the error for an invalid request."""
    return HttpError(400, "bad_request", reason)


def decoded(part: str) -> str:
    """Return a part of a path as text. Raises HttpError (400) for bytes that are not UTF-8."""
    try:
        return unquote(part, errors="strict")
    except UnicodeDecodeError:
        raise bad_request(f"'{part}' in the path is not UTF-8") from None


def not_found() -> HttpError:
    """Return the error for a missing object, in RabbitMQ's words."""
    return HttpError(404, "Object Not Found", "Not Found")


class Identity(NamedTuple):
    """User of a request, and its rights."""

    user: str
    rules: Rules
    expires_at: float
    """Wall-clock time in seconds from which on its credentials are void; infinity for never."""


class Service:
    """State that all requests of one broker share."""

    def __init__(self, event_loop: EventLoop) -> None:
        self.identify: Callable[[Request, BrokerDriver], Awaitable[Identity]] | None = None
        """Function that returns the user of a request at a socket inside a node; None elsewhere (login.py)."""
        self.event_loop = event_loop
        self.driver: BrokerDriver = event_loop.driver
        self.slices = event_loop.slices
        self.hub = Hub(event_loop)
        self.debts = HttpDebts(event_loop.driver.scheduler.entries)
        self.elsewhere: HttpElsewhere | None = None
        """Way to the shards of a node; None for a broker, which answers everything itself."""

    async def pause(self, first: bool = False) -> None:
        """Wait for a slice, among the `first` or with the others, and set the time at which later reads are made."""
        await self.slices.pause(first)
        self.driver.begin(self.event_loop.loop.time())


Handler: TypeAlias = "Callable[[ApiRequest], Awaitable[Response]]"


class ApiRequest:
    """HTTP request of a logged-in user."""

    def __init__(self, http_request: Request, service: Service, identity: Identity) -> None:
        self.http_request = http_request
        self.service = service
        self.event_loop: EventLoop = service.event_loop
        self.driver: BrokerDriver = service.driver
        self.user, self.rules, self.expires_at = identity
        self.query = http_request.query_params
        self.holder = PoolHolder(self.user, "", self.rules.has_tag(MONITORING))
        self._taken = 0
        """Octets of its body in memory."""
        self.before: object = None
        """State before the request, for the audit log; None if it records none."""
        self._given: Row | None = None
        """Fields of a body of ordinary size."""
        self.asker: str = f"{self.user} over HTTP"
        """Name of the requester, for people."""
        self.operation: str = ""
        """Method and path, as the table of routes has them."""
        self.detached: Job | None = None
        """Job that outlives the request, and is recorded in the audit trail when it is done; None without one."""
        self.answered_elsewhere = False
        """True if shards answer, which record what they change."""
        self.read: bytes | None = None
        """Body of ordinary size, as it came, if a shard may need it; None before it was read."""

    async def pause(self) -> None:
        """Yield to the broker; state that was read before the pause may have changed."""
        await self.service.debts.rest(self.user)
        await self.service.pause()

    async def in_steps(self, steps: Steps[Told], changes: bool = False) -> Told:
        """Run long work in steps; see `result_of`. A change completes even if its client has disconnected."""
        return await result_of(self.event_loop, steps, changes)

    async def waited(self, steps: Waits[Told]) -> Told:
        """Carry out an operation whose steps wait for events: each step in a slice of this request.

        Raises HttpError (400) if the client disconnects during a wait, which ends the operation.
        """
        try:
            while True:
                self.begin()
                try:
                    wait = next(steps)
                except StopIteration as end:
                    found: Told = end.value
                    return found
                if wait is None:
                    await self.pause()
                elif not wait.is_over:
                    self.end()
                    await self._until(wait)
        finally:
            self.begin()
            steps.close()

    async def _until(self, wait: Wait) -> None:
        """Wait until an event or its time. Raises HttpError (400) if the client disconnects first."""
        known: asyncio.Future[None] = self.event_loop.loop.create_future()
        wait.subscribe(partial(_wake, known))
        gone = asyncio.ensure_future(until_gone(self.http_request.receive))
        try:
            timeout = None if wait.timeout_s == NEVER else wait.timeout_s
            await asyncio.wait((known, gone), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if gone.done() and not known.done():
                raise HttpError(400, "bad_request", "the client went away")
        finally:
            known.cancel()
            gone.cancel()

    async def in_job(
        self, kind: str, subjects: tuple[Subject, ...], steps: Callable[[WorkProgress], Steps[Row]]
    ) -> Row | None:
        """Run a job about these objects; return its result.

        None if the query has job=true: the request is answered with `accepted`, and the job continues.
        """
        detached = self.flag("job")
        access = ConnectionAccess(self.rules, self.user, "")
        job = self.driver.jobs.add(kind, access, self.asker, subjects)
        run = self.driver.jobs.carried_out(job, self._recorded(job, steps(job)))
        known = result_of(self.event_loop, run, job=job)
        try:
            if not detached:
                return await known
            known.cancel()  # No request waits for the job.
        finally:
            del known  # The future's error refers to this frame.
        self.detached = job
        taken, self._taken = self._taken, 0
        job.on_end = lambda: self.driver.broker.pools.of(HTTP_BODIES).give(self.holder, taken)
        return None

    def _recorded(self, job: Job, steps: Steps[Row]) -> Steps[Row]:
        """Run the steps of a job; record the job in the audit trail if its request was answered already."""
        result = yield from steps
        if self.detached is job:
            self.audit(self.operation)
        return result

    def accepted(self) -> Response:
        """Return the answer to a request whose job continues: the row of the job, and its path."""
        assert self.detached is not None
        return accepted(self.driver.jobs.row(self.detached))

    def begin_turn(self) -> None:
        """Set the time at which later reads are made."""
        self.driver.begin(self.event_loop.loop.time())

    def begin(self) -> None:
        """Set the time for the following calls, and schedule a turn of the broker."""
        self.begin_turn()
        self.event_loop.schedule()

    def end(self) -> None:
        """Release the memory of the request's body."""
        self.service.driver.broker.pools.of(HTTP_BODIES).give(self.holder, self._taken)
        self._taken = 0

    def audit(self, operation: str) -> None:
        """Record a request that has changed state in the audit trail."""
        names = [decoded(part) for part in self.http_request.path_params.values()]
        actor = http_actor(self.http_request, self.user)
        self.driver.audit.change(actor, operation, " ".join(names), self.before, self._given)

    # Objects in the path

    def part(self, name: str) -> str:
        """Return a part of the path, decoded: %2F is a slash in a name. Raises HttpError (400); see `decoded`."""
        return decoded(self.http_request.path_params[name])

    def _check_entered(self, vhost: str) -> None:
        if not self.rules.enters(vhost):
            raise AccessRefused(f"access to vhost '{vhost}' refused for user '{self.user}'")

    def flag(self, name: str) -> bool:
        """Return a boolean of the query, false if it is absent or empty. Raises HttpError (400)."""
        given = self.query.get(name, "")
        return given != "" and query_value(FLAG, name, given) is True

    def asked(self, route: Route, checked: bool) -> Control:
        """Return the request of an operation, without fields, with the virtual host in the path or the query.

        With `checked` the user must be able to enter the virtual host. Raises AccessRefused (401) otherwise, HttpError
        (404) for a read of a missing virtual host.
        """
        name = self.query.get("vhost", "/") if route.queried else self.http_request.path_params.get("vhost", "")
        if route.queried:
            self._check_entered(name)
            return self._request(self.driver.vhost(name), name)
        name = decoded(name)
        vhost = self.driver.broker.vhosts.get(name)
        if vhost is None or vhost.deleting:
            vhost = None
            if name and route.method == "GET":
                raise not_found()
        elif checked:
            self._check_entered(name)
        return self._request(vhost, name)

    def _request(self, vhost: VirtualHost | None, name: str) -> Control:
        request = Control(vhost, None, None, None, b"{}", ConnectionAccess(self.rules, self.user, name))
        request.peer = http_actor(self.http_request, self.user).address
        return request

    # The body

    async def body(self, most: int = BODY_MOST) -> bytes:
        """Return the body, up to a number of bytes.

        Raises HttpError for a body that is too large (413) or too slow (408), and when memory is short (503).
        """
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(BODY_S):
                async for part in self.http_request.stream():
                    size += len(part)
                    if size > most:
                        reason = f"a request to this path may have {most:,} bytes at most"
                        raise HttpError(413, "payload_too_large", reason)
                    self._take(len(part))
                    parts.append(part)
        except TimeoutError:
            raise HttpError(408, "timeout", f"the body did not arrive within {BODY_S:g} s") from None
        except ClientDisconnect:
            raise HttpError(400, "bad_request", "the client went away") from None
        await self.pause()  # The bodies of many requests may have arrived at once.
        self.begin()
        return b"".join(parts)

    def _take(self, size: int) -> None:
        pool, holder = self.service.driver.broker.pools.of(HTTP_BODIES), self.holder
        if not pool.take(holder, size):
            raise HttpError(503, "service_unavailable", pool.refusal(holder, size), {"Retry-After": "1"})
        self._taken += size

    async def fields(self, *needed: str, most: int = BODY_MOST) -> Row:
        """Return the body as an object, {} if empty. Raises HttpError (400) for an invalid body or a missing key."""
        body = await self.body(most)
        reader = JsonReader(body or b"{}")
        try:
            while not reader.step():
                await self.pause()
        except JsonError as error:
            raise bad_request("not_json" if error.syntax else str(error)) from None
        fields = reader.found
        if reader.has_halves:
            raise bad_request("a string contains a lone surrogate (half a character)")
        self.begin()
        for name in needed:
            if name not in fields:
                raise bad_request(f"[{{key_missing,{name}}}]")
        self._given = fields if len(body) <= BODY_MOST else None
        self.read = body if self.service.elsewhere is not None else None
        return fields


def query_value(kind: Kind, name: str, given: str) -> Any:
    """Return a value of the query by its kind. Raises HttpError (400)."""
    found = kind.parse(given)
    if found is INVALID:
        raise bad_request(kind.fault(name, given))
    return found


async def until_gone(receive: Receive) -> None:
    """Wait until the client of a request has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _wake(known: asyncio.Future[None]) -> None:
    if not known.done():
        known.set_result(None)


def is_forwarded(http_request: Request) -> bool:
    """Return whether a proxy forwarded the request: a forwarded request does not count as local."""
    return any(name in http_request.headers for name in FORWARDED)


def http_actor(http_request: Request, user: str) -> Actor:
    """Return the user of a request as actor."""
    client = http_request.client
    return Actor(user, "" if client is None else f"{client.host}:{client.port}", "http")


# Answers from elsewhere: at the port of a node with shards, those that a request is about answer it.


class Joined(NamedTuple):
    """Answer made of those of several shards."""

    answer: Answer
    missing: list[tuple[str, str]]
    """Shards that did not answer, each with the reason."""
    is_job: bool = False
    """True if the answer is the row of a job that continues."""


class HttpElsewhere:
    """Way to the shards of a node."""

    async def passed(self, request: ApiRequest, operation: Operation, route: Route) -> Response | None:
        """Return the answer of the one shard that the path tells; None if the path does not.

        Raises HttpError.
        """
        raise NotImplementedError

    async def answer(
        self, request: ApiRequest, operation: Operation, route: Route, asked: Control
    ) -> Response | Joined | None:
        """Return the answer to a request whose fields are known; None if this process answers it.

        Raises HttpError, BrokerError.
        """
        raise NotImplementedError

    async def settled(self) -> None:
        """Wait until the shards have the changes of users, permissions and virtual hosts, for some time at most."""
        raise NotImplementedError

    def maps(self, request: ApiRequest) -> Maps:
        """Return the flow maps of all shards, for the user of a request."""
        raise NotImplementedError
