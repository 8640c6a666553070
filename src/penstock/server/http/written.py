"""Answers of operations as responses: statuses, bodies and headers by the route, also of answers of several brokers."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.responses import Response

from penstock.connections.control_request import ControlRequest
from penstock.describe.table import Row
from penstock.management.operation import FAILED, PAGES, Answer, Operation, Route, verdict
from penstock.server.http.answers import rows_octets, rows_parts
from penstock.server.http.lists import chosen, columns_of, one, page_out_of_range
from penstock.server.http.request import (
    ApiRequest,
    Joined,
    LongAnswer,
    accepted,
    json_octets,
    json_response,
    no_content,
    not_found,
    overflow_header,
)
from penstock.server.inside import MISSING_HEADER


async def written(
    request: ApiRequest, operation: Operation, route: Route, asked: ControlRequest, answer: Answer
) -> Response:
    """Return the response of an answer that is there as a whole: a row, rows, a text or a count."""
    if not route.silent or (route.spoken is not None and route.spoken(asked.fields)):
        if isinstance(answer, list):
            return Response(await rows_octets(request, answer), media_type="application/json")
        response = one(request, answer) if isinstance(answer, dict) else json_response(answer)
        if route.verdict and isinstance(answer, dict) and answer.get("status") == FAILED:
            response.status_code = 503
        return response
    assert isinstance(answer, dict)
    is_new = operation.before is not None and request.before is None
    headers = {"Location": str(answer["location"])} if "location" in answer else {}
    headers |= overflow_header(answer.get("overflow"))
    return no_content(201 if answer.get("created", is_new and route.method == "PUT") else 204, headers)


async def joined_response(
    request: ApiRequest, operation: Operation, route: Route, asked: ControlRequest, joined: Joined
) -> Response:
    """Return the response of an answer of several shards; a header names those that did not answer.

    Raises HttpError (404, and 400 for a page after the last one).
    """
    answer = joined.answer
    if answer is None:
        raise not_found()
    response: Response
    if joined.is_job and isinstance(answer, dict):
        return accepted(answer)
    if route.verdict and joined.missing and isinstance(answer, dict):
        answer = {**answer, **verdict("; ".join([reason for _, reason in joined.missing]))}
    if operation.gives == PAGES:
        response = await _listed(request, answer)
    else:
        response = await written(request, operation, route, asked, answer)
    if joined.missing:
        response.headers[MISSING_HEADER] = missing_header(joined.missing)
    return response


def missing_header(missing: list[tuple[str, str]]) -> str:
    """Return the header for shards that did not answer. What is not ASCII, or ends a line, is escaped."""
    text = "; ".join([f"{shard}: {reason}" for shard, reason in missing])
    return text.encode("unicode_escape").decode()


async def _listed(request: ApiRequest, answer: Answer) -> Response:
    """Return a list, or one page of it with its numbers. Raises HttpError (400) for a page after the last one."""
    paths = columns_of(request)
    if isinstance(answer, list):
        return LongAnswer(_streamed_rows(request, [chosen(row, paths) for row in answer]), request.http_request)
    assert isinstance(answer, dict)
    page, size, filtered, items = [answer.get(name) for name in ("page", "page_size", "filtered_count", "items")]
    count = answer.get("page_count")
    assert isinstance(page, int) and isinstance(count, int) and isinstance(items, list)
    if page > count:
        raise page_out_of_range(page, size, filtered)
    numbers = {name: value for name, value in answer.items() if name != "items"}
    head = json_octets(numbers).removesuffix(b"}")
    texts = await rows_octets(request, [chosen(row, paths) for row in items])
    return Response(b'%b,"items":%b}' % (head, texts), media_type="application/json")


async def _streamed_rows(request: ApiRequest, rows: list[Row]) -> AsyncIterator[bytes]:
    slices = rows_parts(rows)
    while True:
        try:
            yield next(slices)
        except StopIteration as end:
            yield end.value
            return
        await request.pause()
