"""Passing of HTTP requests to shards: a request is passed on whole, and so is its answer, both as streams.

The shard carries the request out as any broker does, so that statuses, headers, jobs, bodies of any size and long
answers need nothing here. Headers between two sides of one connection stay there (RFC 9110, section 7.6.1), and so do
passwords and what a browser's page has to do with the node: the shard gets the login that the node has verified.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send
from typing_extensions import override

from penstock.cluster.shard_http import Headers, ShardCut, ShardRequest
from penstock.server.http.request import SEND_S, HttpError, StreamedAnswer, until_gone

OF_CONNECTION: Final = frozenset(
    (
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te",
        b"trailer", b"transfer-encoding", b"upgrade",
    )
)  # fmt: skip
"""Headers of one connection."""
OF_NODE: Final = frozenset(
    (
        b"host", b"authorization", b"cookie", b"expect", b"origin", b"referer", b"forwarded", b"via",
        b"x-forwarded-for", b"x-real-ip", b"content-length",
    )
)  # fmt: skip
"""Headers of a request that are the node's; the length of the body is written anew."""
OWN: Final = b"penstock-"
"""Beginning of the headers by which a node speaks to its shards."""
OF_PERMITTED: Final = frozenset((b"access-control-request-method", b"access-control-request-headers"))
OF_LISTENER: Final = frozenset((b"server", b"date", b"cache-control"))
"""Headers of an answer that each listener writes itself."""

Begin = Callable[[bytes, bytes, Headers], Awaitable[ShardRequest]]
"""Function that begins a request at a shard: method, target and headers. Raises HttpError."""


def request_headers(http_request: Request, body: bytes | None) -> Headers:
    """Return the headers of a request for a shard; `body` is the body if it was read already."""
    headers: Headers = http_request.headers.raw
    named = _named_in_connection(headers)
    left_out = OF_CONNECTION | OF_NODE | OF_PERMITTED | named
    kept = [(name, value) for name, value in headers if name not in left_out and not name.startswith(OWN)]
    if body is not None:
        return [*kept, (b"content-length", str(len(body)).encode())]
    given = dict(headers)
    if b"content-length" in given:
        return [*kept, (b"content-length", given[b"content-length"])]
    return [*kept, (b"transfer-encoding", b"chunked")] if b"transfer-encoding" in given else kept


def answer_headers(headers: Headers) -> Headers:
    """Return the headers of a shard's answer for the client."""
    left_out = OF_CONNECTION | OF_LISTENER | _named_in_connection(headers)
    return [(name, value) for name, value in headers if name not in left_out]


def _named_in_connection(headers: Headers) -> frozenset[bytes]:
    """Return the headers that the header Connection names: they are of one connection, too."""
    values = [value for name, value in headers if name == b"connection"]
    return frozenset([each.strip().lower() for value in values for each in value.split(b",")])


def target_of(http_request: Request) -> bytes:
    """Return the target of a request as it came, with its query."""
    path: bytes = http_request.scope["raw_path"]
    query: bytes = http_request.scope["query_string"]
    return path + b"?" + query if query else path


async def passed_on(http_request: Request, begin: Begin, body: bytes | None = None) -> Response:
    """Pass a request on; return its answer, whose head has arrived. `body` is the body if it was read already.

    Raises HttpError if the shard cannot be reached (503) or ends before it answers (502), or if the client has
    disconnected (400).
    """
    method = http_request.method.encode()
    headers = request_headers(http_request, body)
    has_body = not {b"content-length", b"transfer-encoding"}.isdisjoint(dict(headers))
    repeatable = method in (b"GET", b"HEAD") and not has_body
    if not has_body:
        body = b""
    while True:
        shard = await begin(method, target_of(http_request), headers)
        try:
            await _answered(http_request, shard, body)
        except ShardCut:
            shard.close()
            if not repeatable:
                raise HttpError(502, "bad_gateway", CUT) from None
            repeatable = False  # A read is repeated once: its shard has a new process by then, or has none.
            continue
        except BaseException:
            shard.close()
            raise
        return PassedAnswer(shard, http_request)


CUT: Final = (
    "the shard of this virtual host ended before it had answered: the request may have been carried out, or not"
)


async def _answered(http_request: Request, shard: ShardRequest, body: bytes | None) -> None:
    """Send the body, and read the head of the answer. Raises ShardCut, and HttpError (400) without the client."""
    head = asyncio.ensure_future(shard.answer())
    gone = asyncio.ensure_future(_sent(http_request, shard, body))
    try:
        await asyncio.wait((head, gone), return_when=asyncio.FIRST_COMPLETED)
        if not head.done():
            gone.result()
            raise HttpError(400, "bad_request", "the client went away")
        head.result()
    finally:
        head.cancel()
        gone.cancel()
        await asyncio.wait((head, gone))
        del head, gone  # Their errors refer to this frame.


async def _sent(http_request: Request, shard: ShardRequest, body: bytes | None) -> None:
    """Send the body as it arrives, and wait until the client has disconnected.

    A shard that does not take all of it has an answer, or has ended: its answer tells.
    """
    with contextlib.suppress(ShardCut, ClientDisconnect):
        if body is None:
            async for part in http_request.stream():
                if part:
                    await shard.send(part)
        elif body:
            await shard.send(body)
        await shard.end()
    await until_gone(http_request.receive)


class PassedAnswer(StreamedAnswer):
    """Answer of a shard that is written as it arrives. One that the shard does not finish closes the connection."""

    def __init__(self, shard: ShardRequest, http_request: Request) -> None:
        super().__init__(self._parts(), shard.status)
        self.raw_headers = answer_headers(shard.headers)
        self._shard = shard
        self._http_request = http_request

    async def _parts(self) -> AsyncIterator[bytes]:
        async for part in self._shard.parts():
            yield part

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(SEND_S):
                await send(message)

        try:
            await super().__call__(scope, receive, send_in_time)
        except (ShardCut, TimeoutError):
            self._http_request.state.socket.hang_up()
        finally:
            self._shard.close()
