"""Handlers for the broker as a whole: overview, node and definitions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from starlette.responses import Response

from penstock.core.vhost import VirtualHost
from penstock.describe.lists import Item
from penstock.operations import definitions_export
from penstock.operations.definitions_import import ImportOptions, import_steps
from penstock.operations.definitions_parser import BYTES_MOST
from penstock.server.http.request import (
    ApiRequest,
    LongAnswer,
    bad_request,
    json_octets,
    json_response,
    no_content,
    overflow_header,
)

EXPORTED_AT_ONCE: Final = 100
"""Items of an export formatted per slice."""
IMPORT_OPTIONS: Final = frozenset({"skip_refused", "streams_as_queues"})
RABBITMQ: Final = "rabbitmq"
"""Value of `for` in an export for RabbitMQ."""


async def export(request: ApiRequest) -> Response:
    """Export the definitions of all virtual hosts or of one; `for=rabbitmq` leaves out entries that RabbitMQ
    refuses."""
    reader = request.query.get("for")
    if reader not in (None, RABBITMQ):
        raise bad_request(f"for must be {RABBITMQ}, or be left out")
    parts = _export(request, request.vhost_or_all(), reader == RABBITMQ)
    return LongAnswer(parts, request.http_request)


async def _export(request: ApiRequest, only: VirtualHost | None, for_rabbitmq: bool) -> AsyncIterator[bytes]:
    head = definitions_export.head(request.driver, only is None)
    yield json_octets(head)[:-1]
    for section in definitions_export.SECTIONS:
        if only is not None and section in definitions_export.FOR_ALL:
            continue
        before = b""
        yield b',"' + section.encode() + b'":['
        async for items in _collected(request, section, only):
            shapes = definitions_export.exported(items, only is None, for_rabbitmq)
            part = [json_octets(each) for each in shapes]
            if part:
                yield before + b",".join(part)
                before = b","
        yield b"]"
    yield b"}"


async def _collected(request: ApiRequest, section: str, only: VirtualHost | None) -> AsyncIterator[list[Item]]:
    """Yield the items of a section, some at a time, each once. Items created meanwhile may be missing."""
    some: list[Item] = []
    seen = 0
    for vhost, subjects in definitions_export.groups(request.driver, section, only):
        group = list(subjects)
        for start in range(0, len(group) or 1, EXPORTED_AT_ONCE):
            part = group[start : start + EXPORTED_AT_ONCE]
            some += [Item("", vhost, subject) for subject in part]
            seen += 1 + len(part)
            if seen >= EXPORTED_AT_ONCE:
                yield some
                some, seen = [], 0
                await request.pause()
    yield some
    await request.pause()


async def import_(request: ApiRequest) -> Response:
    """Import definitions: all or nothing; errors (400) name line and key. `dry_run=true` answers what would differ.

    With options that skip single entries, or change them, the answer lists the created and the skipped ones. Without
    them it is empty, as RabbitMQ's.
    """
    only = request.vhost_or_all()
    kind = request.http_request.headers.get("content-type", "")
    if kind.startswith("multipart/"):
        raise bad_request("definitions are read from a body in JSON, not from a form")
    words = request.query.getlist("skip")  # A name may have commas.
    skip = [each for word in words for each in ([word] if ":" in word else word.split(",")) if each]
    options = ImportOptions(skip, request.flag("skip_refused"), request.flag("streams_as_queues"))
    dry_run = request.flag("dry_run")
    body = await request.body(BYTES_MOST)
    steps = import_steps(request.driver, body, None if only is None else only.name, options, dry_run)
    answer = await request.in_steps(steps, True)
    tells = dry_run or not IMPORT_OPTIONS.isdisjoint(request.query) or any(":" in each for each in skip)
    return json_response(answer) if tells else no_content(headers=overflow_header(answer.get("overflow")))
