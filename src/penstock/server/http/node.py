"""Import of definitions over HTTP."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from penstock.connections.control_request import IMPORT
from penstock.management.jobs import DEFINITIONS, Subject
from penstock.operations.definitions_import import ImportOptions, import_steps
from penstock.operations.definitions_parser import BYTES_MOST
from penstock.server.http.request import (
    ApiRequest,
    bad_request,
    json_response,
    no_content,
    overflow_header,
)

IMPORT_OPTIONS: Final = frozenset({"skip_refused", "streams_as_queues"})


async def import_(request: ApiRequest) -> Response:
    """Import definitions: all or nothing; errors (400) name line and key. `dry_run=true` answers what would differ.

    With options that skip single entries, or change them, the answer lists the created and the skipped ones. Without
    them it is empty, as RabbitMQ's. With `job=true` the answer is the row of the import's job, before its end.
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
    vhost = None if only is None else only.name
    answer = await request.in_job(
        IMPORT,
        (Subject(DEFINITIONS, "", vhost or ""),),
        lambda progress: import_steps(request.driver, body, vhost, options, dry_run, progress),
    )
    if answer is None:
        return request.accepted()
    tells = dry_run or not IMPORT_OPTIONS.isdisjoint(request.query) or any(":" in each for each in skip)
    return json_response(answer) if tells else no_content(headers=overflow_header(answer.get("overflow")))
