"""HTTP client of a node: bodies both ways, ends of answers, and shards that end within them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from penstock.cluster.shard_http import Headers, ShardCut, ShardRequest


@asynccontextmanager
async def shard(tmp_path: Path, answer: bytes, wanted: bytes = b"\r\n\r\n") -> AsyncIterator[tuple[str, list[bytes]]]:
    """Serve connections: read up to some bytes, answer, and close; yield the path, and what was read."""
    path, read = str(tmp_path / "http"), list[bytes]()
    served: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        read.append(await reader.readuntil(wanted))
        writer.write(answer)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.ensure_future(serve(reader, writer)))

    server = await asyncio.start_unix_server(begin, path)
    try:
        yield path, read
    finally:
        server.close()
        await asyncio.gather(*served, return_exceptions=True)


async def asked(path: str, method: bytes = b"GET", headers: Headers | None = None, *body: bytes) -> ShardRequest:
    request = await ShardRequest.begin(path, method, b"/api/x?y=%2F", headers or [])
    for part in body:
        await request.send(part)
    await request.end()
    return request


async def test_answer_has_status_headers_and_body(tmp_path: Path) -> None:
    answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\nX-More: a\r\nX-More: b\r\n\r\nnone"
    async with shard(tmp_path, answer) as (path, read):
        request = await asked(path, headers=[(b"accept", b"*/*")])
        await request.answer()
        assert request.status == 404
        assert request.headers == [(b"content-length", b"4"), (b"x-more", b"a"), (b"x-more", b"b")]
        assert await request.body(4) == b"none"
        request.close()
    assert read == [b"GET /api/x?y=%2F HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\naccept: */*\r\n\r\n"]


async def test_body_is_sent_in_chunks_as_it_comes(tmp_path: Path) -> None:
    answer = b"HTTP/1.1 204 No Content\r\n\r\n"
    async with shard(tmp_path, answer, b"0\r\n\r\n") as (path, read):
        request = await asked(path, b"PUT", [(b"transfer-encoding", b"chunked")], b"one", b"", b"two")
        await request.answer()
        assert (request.status, await request.body(0)) == (204, b"")
        request.close()
    assert read[0].endswith(b"\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")


async def test_interim_answers_are_passed_over(tmp_path: Path) -> None:
    answer = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
    async with shard(tmp_path, answer) as (path, _):
        request = await asked(path)
        await request.answer()
        assert await request.body(2) == b"ok"
        request.close()


async def test_answer_to_head_has_no_body(tmp_path: Path) -> None:
    async with shard(tmp_path, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n") as (path, _):
        request = await asked(path, b"HEAD")
        await request.answer()
        assert await request.body(9) == b""
        request.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
        b"AMQP\0\0\x09\x01\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 300_000 + b"\r\n\r\n",
    ],
)
async def test_answer_that_is_cut_off_or_no_http_is_an_error(tmp_path: Path, answer: bytes) -> None:
    async with shard(tmp_path, answer) as (path, _):
        request = await asked(path)
        with pytest.raises(ShardCut):
            await whole(request)
        request.close()


async def whole(request: ShardRequest) -> bytes:
    await request.answer()
    return await request.body(1_000_000)


async def test_body_beyond_the_bound_is_an_error(tmp_path: Path) -> None:
    async with shard(tmp_path, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nnine byte") as (path, _):
        request = await asked(path)
        await request.answer()
        with pytest.raises(ShardCut, match="the answer has more than 8 bytes"):
            await request.body(8)
        request.close()


async def test_body_for_a_shard_that_has_ended_is_an_error(tmp_path: Path) -> None:
    async with shard(tmp_path, b"") as (path, _):
        request = await ShardRequest.begin(path, b"PUT", b"/", [(b"content-length", b"100000000")])
        with pytest.raises(ShardCut):
            await sent(request, 100)
        request.close()


async def sent(request: ShardRequest, megabytes: int) -> None:
    for _ in range(megabytes):
        await request.send(b"x" * 1_000_000)


async def test_socket_without_a_listener_refuses(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        await ShardRequest.begin(str(tmp_path / "none"), b"GET", b"/", [])
