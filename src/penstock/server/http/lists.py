"""Lists over HTTP: RabbitMQ's query parameters as the fields of a request, and the answer, a stream or one page.

The query parameters are `columns`, `sort`, `sort_reverse`, samples (`msg_rates_age`, `msg_rates_incr`, `lengths_age`,
`lengths_incr`), and for pages `page`, `page_size`, `name` and `use_regex`. The objects of a list and their order are
defined in `penstock.operations.lists`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from starlette.responses import Response

from penstock.describe.list_kinds import is_gone
from penstock.describe.lists import Found
from penstock.describe.table import Row, field_at
from penstock.operations.lists import check_columns, short_column
from penstock.server.http.request import (
    ApiRequest,
    HttpError,
    LongAnswer,
    json_octets,
    json_response,
    query_value,
)
from penstock.settings.kind import whole

NUMBER: Final = whole(1, 999_999_999)
"""Kind of the numbers of a page and of samples."""
AT_ONCE: Final = 4
"""Objects formatted per slice: some tenths of a millisecond."""


def list_fields(request: ApiRequest) -> Row:
    """Return the fields of a list, or of one page. Raises HttpError (400) for an invalid number."""
    fields: Row = {"whole": True, "columns": columns_of(request), **sample_fields(request)}
    if request.query.get("sort"):
        fields["sort"] = [request.query["sort"]]
    if request.flag("sort_reverse"):
        fields["reverse"] = True
    for name in ("state", "groups"):
        if request.query.get(name):
            fields[name] = request.query[name] if name == "state" else request.flag(name)
    page = _number(request, "page")
    if page:
        fields |= {"page": page, "named": request.query.get("name", ""), "regex": request.flag("use_regex")}
        if request.query.get("page_size"):
            fields["page_size"] = _number(request, "page_size")
    return fields


def sample_fields(request: ApiRequest) -> Row:
    """Return the fields of the wanted samples. Raises HttpError (400)."""
    found: Row = {}
    for field, name in (("rates", "msg_rates"), ("lengths", "lengths")):
        if f"{name}_age" in request.query and f"{name}_incr" in request.query:
            found[field] = [query_value(NUMBER, each, request.query[each]) for each in (f"{name}_age", f"{name}_incr")]
    return found


async def listed(request: ApiRequest, found: Found) -> Response:
    """Answer with a list, or with one page of the list. Raises HttpError (400) for a page after the last one."""
    request.begin_turn()
    parts = _stream(request, found, columns_of(request))
    if not found.page:
        return LongAnswer(parts, request.http_request)
    if found.page > found.pages():
        raise page_out_of_range(found.page, found.page_size, found.filtered)
    texts = b"".join([part async for part in parts])
    head = json_octets(found.head()).removesuffix(b"}")
    return Response(b'%b,"items":%b}' % (head, texts), media_type="application/json")


def page_out_of_range(page: object, page_size: object, filtered: object) -> HttpError:
    """Return the error for a page after the last one."""
    reason = f"page out of range, page: {page} page size: {page_size}, len: {filtered}"
    return HttpError(400, "page_out_of_range", reason)


async def _stream(request: ApiRequest, found: Found, paths: list[str]) -> AsyncIterator[bytes]:
    """Stream a list in slices; objects deleted meanwhile are omitted."""
    before, items = b"[", found.items
    for start in range(0, len(items), AT_ONCE):
        if start:
            await request.pause()
        texts = [
            json_octets(chosen(found.rows.of(item.subject), paths))
            for item in items[start : start + AT_ONCE]
            if not is_gone(item)
        ]
        if texts:
            yield before + b",".join(texts)
            before = b","
    yield b"[]" if before == b"[" else b"]"


def one(request: ApiRequest, content: Row) -> Response:
    """Answer with one object, or its requested columns."""
    return json_response(chosen(content, columns_of(request)))


def chosen(content: Row, paths: list[str]) -> Row:
    """Return these columns of a row, or all columns: a.b is the member b of column a."""
    if not paths:
        return content
    row: Row = {}
    for path in paths:
        place, _, name = path.rpartition(".")
        source = field_at(content, place) if place else content
        if isinstance(source, dict) and name in source:
            target = row
            for outer in place.split(".") if place else ():
                inner = target.setdefault(outer, {})
                assert isinstance(inner, dict)
                target = inner
            target[name] = source[name]
    return row


def columns_of(request: ApiRequest) -> list[str]:
    """Return the requested columns; empty for all. Raises PreconditionFailed (406) for too many or too long names."""
    text = request.query.get("columns")
    if not text:
        return []
    check_columns(text.count(",") + 1)
    return [short_column(path, "columns") for path in text.split(",")]


def _number(request: ApiRequest, name: str) -> int:
    """Return a number of the query, 0 if it is absent. Raises HttpError (400)."""
    value = request.query.get(name)
    return query_value(NUMBER, name, value) if value else 0
