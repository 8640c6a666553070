"""Stream of the console's events: server-sent events (WHATWG HTML, section 9.2) on an HTTP response."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from penstock.access.permission import ADMINISTRATOR, MONITORING
from penstock.access.rules import UserRules
from penstock.server.http.console.hub import Channel
from penstock.server.http.request import ApiRequest, HttpError, until_gone

SEND_S: Final = 30.0
"""Seconds until a watcher that reads nothing is hung up on."""
LIFE_S: Final = 600.0
"""Seconds until a stream ends and its client logs in again."""
EVERYTHING: Final = ""
"""Key of the channel of administrators, who see every virtual host."""


async def events(request: ApiRequest) -> Response:
    """Stream the flow map: the newest at once, and each further one. Raises HttpError (503) at a bound."""
    hub = request.service.hub
    reason = hub.refusal(request.holder)
    if reason:
        raise HttpError(503, "service_unavailable", reason, {"Retry-After": "10"})
    if request.http_request.method == "HEAD":
        return Response(media_type=EventStream.media_type)  # A stream has no end, and nothing of it would be sent.
    elsewhere = request.service.elsewhere
    tag = ADMINISTRATOR if request.rules.has_tag(ADMINISTRATOR) else MONITORING
    if tag == ADMINISTRATOR and elsewhere is None:
        return EventStream(request, hub.join(EVERYTHING, None), tag)
    named = isinstance(request.rules, UserRules)  # Those of a token may differ from others of its user.
    key = f"user {request.user}" if named else f"token {id(request.rules)}"
    maps = None if elsewhere is None else partial(elsewhere.maps, request)
    return EventStream(request, hub.join(key, request.rules, maps), tag)


class EventStream(Response):
    """Response that lasts as long as its client reads, its login is valid, its user may see it, and `LIFE_S`."""

    media_type = "text/event-stream"

    def __init__(self, request: ApiRequest, channel: Channel, tag: str) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._rules = request.rules
        self._broker = request.driver.broker
        self._expires_at = request.expires_at
        self._channel = channel
        self._tag = tag
        self._holder = request.holder
        channel.hub.pool.add(self._holder, 1)
        self._ends_at = request.event_loop.loop.time() + LIFE_S
        self._http_request = request.http_request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        gone = asyncio.ensure_future(until_gone(receive))
        try:
            async with asyncio.timeout(SEND_S):
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self._send_all(send, gone)
        except TimeoutError:
            self._http_request.state.socket.hang_up()
            await gone  # The response has no end: nobody may be told that it is whole.
        finally:
            gone.cancel()
            self._channel.leave()
            self._channel.hub.pool.give(self._holder, 1)

    async def _send_all(self, send: Send, gone: asyncio.Future[None]) -> None:
        loop = asyncio.get_running_loop()
        number, body = 0, b"retry: 1000\n\n"
        while not gone.done() and self._is_permitted(loop.time()):
            async with asyncio.timeout(SEND_S):
                await send({"type": "http.response.body", "body": body, "more_body": True})
            if loop.time() >= self._ends_at or self._channel.hub.closed:
                break
            newer = asyncio.ensure_future(self._channel.next(number))
            await asyncio.wait((newer, gone), return_when=asyncio.FIRST_COMPLETED)
            if not newer.done():
                newer.cancel()
                return
            number, body = newer.result()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _is_permitted(self, now: float) -> bool:
        """Return whether its login is still valid, and permits it; it is asked before each map."""
        return self._rules.has_tag(self._tag) and now + self._broker.wall_offset < self._expires_at
