"""Answers of operations as JSON, in parts that are encoded in slices: some rows, or a piece of a long text."""

from __future__ import annotations

import codecs
import json
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Final

from penstock.describe.table import Row
from penstock.management.operation import Streamed
from penstock.server.http.request import ApiRequest, json_octets

TEXT_AT_ONCE: Final = 96 * 1024
"""Bytes of a text that are one part."""
ROWS_AT_ONCE: Final = 50
"""Rows of an answer that are encoded per slice; fewer if their texts are long."""


async def streamed_octets(request: ApiRequest, streamed: Streamed) -> AsyncIterator[bytes]:
    """Write an answer whose rows are read as they are written."""
    for part in streamed_parts(streamed):
        if part:
            yield part
        await request.pause()


def streamed_parts(streamed: Streamed) -> Iterator[bytes]:
    """Yield an answer in parts; a part is empty if none of the rows read is shown."""
    before = json_octets(streamed.head).removesuffix(b"}")
    for name, parts in streamed.lists:
        before += b',"%b":[' % name.encode()
        for rows in parts:
            if rows:
                yield before + b",".join([json_octets(row) for row in rows])
                before = b","
            else:
                yield b""
        before = b"]" if before == b"," else before + b"]"
    yield before + b"}"


async def rows_octets(request: ApiRequest, rows: list[Row]) -> bytes:
    """Return a list of rows; a value of bytes is a text in UTF-8."""
    slices = rows_parts(rows)
    parts: list[bytes] = []
    while True:
        try:
            parts.append(next(slices))
        except StopIteration as end:
            return b"".join([*parts, end.value])
        await request.pause()


def rows_parts(rows: list[Row]) -> Generator[bytes, None, bytes]:
    """Yield a list of rows, a slice at a time; the last part is returned."""
    slice_: list[bytes] = []
    size = 0
    for number, row in enumerate(rows):
        slice_.append(b"," if number else b"[")
        for part in _row_parts(row):
            slice_.append(part)
            size += len(part)
            if size >= TEXT_AT_ONCE:
                yield b"".join(slice_)
                slice_, size = [], 0
        if (number + 1) % ROWS_AT_ONCE == 0 and slice_:
            yield b"".join(slice_)
            slice_, size = [], 0
    slice_.append(b"]" if rows else b"[]")
    return b"".join(slice_)


def _row_parts(row: Row) -> Iterator[bytes]:
    short: Row = {}
    begun = False
    for name, value in row.items():
        if not isinstance(value, bytes):
            short[name] = value
            continue
        short[name] = ""
        head = json_octets(short).removesuffix(b'"}')
        yield b"," + head[1:] if begun else head
        yield from _text_parts(value)
        yield b'"'
        short = {}
        begun = True
    if not begun:
        yield json_octets(short)
    else:
        yield b"," + json_octets(short)[1:] if short else b"}"


def _text_parts(text: bytes) -> Iterator[bytes]:
    """Yield the inside of a string of JSON for a text in UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(text), TEXT_AT_ONCE):
        end = start + TEXT_AT_ONCE
        part = decoder.decode(text[start:end], end >= len(text))
        yield json.dumps(part, ensure_ascii=False)[1:-1].encode()
